module github.com/shaledb/shale/remote

go 1.25

replace github.com/shaledb/shale => ..

require github.com/shaledb/shale v0.0.0
