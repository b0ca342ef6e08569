package shalebleve

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/upsidedown"
	"github.com/blevesearch/bleve/v2/index/upsidedown/store/boltdb"
	index "github.com/blevesearch/bleve_index_api"
)

// BenchmarkIndex compares the store with boltdb, which an upsidedown index has by default: batches
// of 100 documents of ten words, of 10,000, which become durable with each batch; then searches for
// a word, of 2,000 that are there and of some that are not, in an index of 20,000 documents.
func BenchmarkIndex(b *testing.B) {
	for _, name := range []string{Name, boltdb.Name} {
		b.Run(name, func(b *testing.B) {
			idx, err := upsidedown.NewUpsideDownCouch(name, map[string]interface{}{"path": b.TempDir() + "/store"}, index.NewAnalysisQueue(2))
			if err != nil {
				b.Fatal(err)
			}
			if err := idx.Open(); err != nil {
				b.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			docs := 0
			write := func() {
				batch := index.NewBatch()
				for range 100 {
					doc := document.NewDocument(fmt.Sprintf("document %d", docs))
					for range 10 {
						word := fmt.Appendf(nil, "word%04d", int(random.ExpFloat64()*1000)%10_000)
						doc.AddField(document.NewTextField("text", nil, word))
					}
					batch.Update(doc)
					docs++
				}
				if err := idx.Batch(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.Run("batch of 100", func(b *testing.B) {
				for b.Loop() {
					write()
				}
			})
			for docs < 20_000 {
				write()
			}
			for _, search := range []struct{ name, format string }{{"search", "word%04d"}, {"search absent", "other%04d"}} {
				b.Run(search.name, func(b *testing.B) {
					found := 0
					for i := 0; b.Loop(); i++ {
						found += hits(b, idx, fmt.Sprintf(search.format, i*7%2000))
					}
					if (found > 0) != (search.name == "search") {
						b.Errorf("%d hits", found)
					}
				})
			}
			if err := idx.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
