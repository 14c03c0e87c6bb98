// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// An Object is an object of a store that has preconditions, such as S3, Google Cloud
// Storage or Azure Blob Storage. The object's metadata has the highest token so far.
//
// This is the bare protocol, without the signature that a store demands: their clients
// call the precondition IfMatch, or IfGenerationMatch.
type Object struct {
	Client *http.Client
	URL    string
}

const tokenHeader = "X-Amz-Meta-Token"

// Update replaces the object's content by what change makes of it, for the holder with
// the token. The content is empty if there is no object yet. If another holder writes
// in between, Update looks again and may call change once more.
func (o Object) Update(ctx context.Context, token uint64, change func([]byte) []byte) error {
	for {
		old, content, err := o.do(ctx, http.MethodGet, nil, nil)
		if err != nil {
			return err
		}
		header := http.Header{tokenHeader: {strconv.FormatUint(token, 10)}}
		switch old.StatusCode {
		case http.StatusOK:
			seen, err := strconv.ParseUint(old.Header.Get(tokenHeader), 10, 64)
			if err != nil {
				return fmt.Errorf("%s has no token: %w", o.URL, err)
			}
			if seen > token {
				return ErrStale
			}
			header.Set("If-Match", old.Header.Get("ETag"))
		case http.StatusNotFound:
			content = nil
			header.Set("If-None-Match", "*")
		default:
			return fmt.Errorf("get %s: %s", o.URL, old.Status)
		}
		put, _, err := o.do(ctx, http.MethodPut, header, change(content))
		switch {
		case err != nil:
			return err
		case put.StatusCode == http.StatusPreconditionFailed:
			continue // another holder has written: what is its token?
		case put.StatusCode/100 != 2:
			return fmt.Errorf("put %s: %s", o.URL, put.Status)
		}
		return nil
	}
}

// do sends a request and reads the answer.
func (o Object) do(ctx context.Context, method string, header http.Header, body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		req.Header = header
	}
	resp, err := o.Client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp, content, err
}
