package debug

import (
	"expvar"
	"sync"

	"github.com/shaledb/shale"
)

var published struct {
	sync.Mutex
	stores map[string]*shale.DB
}

// Publish has package expvar show db's metrics under name. A later store of
// the same name takes its place; it panics if the name is of another variable, as
// expvar.Publish does.
func Publish(name string, db *shale.DB) {
	published.Lock()
	defer published.Unlock()
	if _, again := published.stores[name]; !again {
		expvar.Publish(name, expvar.Func(func() any { return metricsOf(name) }))
		if published.stores == nil {
			published.stores = map[string]*shale.DB{}
		}
	}
	published.stores[name] = db
}

func metricsOf(name string) shale.Metrics {
	published.Lock()
	db := published.stores[name]
	published.Unlock()
	return db.Metrics()
}
