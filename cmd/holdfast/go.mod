module github.com/holdfast-go/holdfast/cmd/holdfast

go 1.26.0

replace github.com/holdfast-go/holdfast => ../..

require (
	github.com/alecthomas/kong v1.17.0
	github.com/gdamore/tcell/v2 v2.13.10
	github.com/holdfast-go/holdfast v0.0.0-00010101000000-000000000000
	github.com/rivo/uniseg v0.4.7
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	github.com/gdamore/encoding v1.0.1 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/lucasb-eyer/go-colorful v1.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/text v0.31.0 // indirect
)
