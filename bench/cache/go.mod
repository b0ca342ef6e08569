module github.com/shaledb/shale/bench/cache

go 1.25

replace github.com/shaledb/shale => ../..

require (
	github.com/maypok86/otter/v2 v2.4.0
	github.com/shaledb/shale v0.0.0-00010101000000-000000000000
)
