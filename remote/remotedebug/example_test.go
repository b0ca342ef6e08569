package remotedebug_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/debug"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/remotedebug"
	"github.com/shaledb/shale/vfs"
)

// The page of a store that is kept in a bucket, with its metrics.
func ExamplePlaces() {
	ctx := context.Background()
	store, err := remote.Open(ctx, "seen", remote.NewMem(), &remote.Options{Publish: -1, Store: shale.Options{FS: vfs.NewMem()}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	handler := debug.Handler(store.DB(), remotedebug.Places(store))
	show := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "shale_places_tables") {
				fmt.Print(line)
			}
		}
	}
	if err := store.DB().Put([]byte("https://example.org"), nil); err != nil {
		log.Fatal(err)
	}
	if err := store.DB().Flush(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	if err := store.Publish(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// shale_places_tables{level="0",place="local"} 1
	// shale_places_tables{level="0",place="both"} 0
	// shale_places_tables{level="0",place="bucket"} 0
	// shale_places_tables{level="0",place="local"} 0
	// shale_places_tables{level="0",place="both"} 1
	// shale_places_tables{level="0",place="bucket"} 0
}
