module github.com/holdfast-go/holdfast

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	go.uber.org/atomic v1.12.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)
