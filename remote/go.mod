module github.com/shaledb/shale/remote

go 1.26.0

replace github.com/shaledb/shale => ..

require (
	github.com/shaledb/shale v0.0.0
	golang.org/x/sync v0.20.0
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
)
