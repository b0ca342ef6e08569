module github.com/shaledb/shale/internal/release

go 1.26.0

require golang.org/x/mod v0.37.0
