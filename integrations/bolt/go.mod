module github.com/shaledb/shale/integrations/bolt

go 1.26.0

replace github.com/shaledb/shale => ../..

require (
	github.com/shaledb/shale v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	golang.org/x/sys v0.45.0 // indirect
)
