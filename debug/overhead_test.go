package debug

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// The pages that a browser asks for each second, and every fifth.
var (
	quickPages = []string{"/api/overview", "/api/memory", "/api/cache", "/api/rates?since=1"}
	slowPages  = []string{"/api/filters", "/tree.svg?by=fpr", "/api/trouble", "/api/compactions", "/api/stalls"}
)

func look(b *testing.B, h http.Handler, pages []string) {
	for _, p := range pages {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, p, nil))
		if w.Code != http.StatusOK {
			b.Errorf("%s: %d", p, w.Code)
		}
	}
}

// benchStore has about this many tables, and the counts of a million lookups.
func benchStore(b *testing.B, tables int) *shale.DB {
	b.Helper()
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), TableSize: 64 << 10, Durability: shale.SyncManual, Compression: shale.NoCompression})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range tables * 550 {
		if err := db.Put(fmt.Appendf(nil, "key%08d", i), make([]byte, 100)); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return db
}

// BenchmarkGet is a lookup of an absent key, without and with an open page. The difference
// is what the page costs others. The page itself costs what BenchmarkLook says, each
// second: divided by a second, that is its share of one processor.
func BenchmarkGet(b *testing.B) {
	db := benchStore(b, 200)
	for _, open := range []bool{false, true} {
		b.Run(fmt.Sprintf("page=%v", open), func(b *testing.B) {
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				h := Handler(db)
				for i := 0; open; i++ {
					look(b, h, quickPages)
					if i%5 == 0 {
						look(b, h, slowPages)
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			}()
			key := []byte("key00000000x")
			for i := 0; b.Loop(); i++ {
				for j := range 8 {
					key[3+j] = byte('0' + (i>>(3*j))&7)
				}
				if _, err := db.Has(key); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			close(stop)
			<-stopped
		})
	}
}

func BenchmarkLook(b *testing.B) {
	for _, tables := range []int{20, 2000} {
		db := benchStore(b, tables)
		h := Handler(db)
		for name, pages := range map[string][]string{"second": quickPages, "fifth": slowPages, "metrics": {"/metrics"}} {
			b.Run(fmt.Sprintf("tables=%d/every=%s", len(db.Tables()), name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					look(b, h, pages)
				}
			})
		}
	}
}
