module github.com/shaledb/shale/cmd

go 1.26.0

replace github.com/shaledb/shale => ..

require (
	github.com/cockroachdb/datadriven v1.0.2
	github.com/mattn/go-runewidth v0.0.16
	github.com/peterh/liner v1.2.2
	github.com/shaledb/shale v0.0.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/sys v0.30.0 // indirect
)
