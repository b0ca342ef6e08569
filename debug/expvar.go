package debug

import (
	"expvar"
	"sync"

	"github.com/shaledb/shale"
)

// published has the stores that Publish shows, by name. expvar cannot remove a variable, so
// a variable stays, and looks up its store here.
var published struct {
	sync.Mutex
	stores map[string]*shale.DB
}

// Publish makes package expvar show the metrics of db under name. If a store was published
// under this name before, db takes its place. If the name belongs to another variable,
// Publish panics, as expvar.Publish does.
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

// metricsOf returns the metrics of the store that is published under name.
func metricsOf(name string) shale.Metrics {
	published.Lock()
	db := published.stores[name]
	published.Unlock()
	return db.Metrics()
}
