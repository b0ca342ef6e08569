package debug_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/vfs"
)

// The handler is mounted next to net/http/pprof, on an address that only operators reach.
func ExampleHandler() {
	db, err := shale.Open("hosts.db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/shale/", debug.Handler(db, debug.Title("hosts.db")))
	debug.Publish("hosts.db", db) // in /debug/vars, by package expvar
	server := httptest.NewServer(mux)
	defer server.Close()

	r, err := http.Get(server.URL + "/debug/shale/api/memory")
	if err != nil {
		panic(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	fmt.Println(r.Status, len(body) > 0, err)
	// Output: 200 OK true <nil>
}
