module github.com/shaledb/shale/examples/redis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.17.3
	github.com/shaledb/shale v0.0.0
	github.com/tidwall/redcon v1.6.4
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/tidwall/btree v1.1.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
)

replace github.com/shaledb/shale => ../..
