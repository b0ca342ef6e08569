package shalebleve

import (
	"fmt"
	"testing"

	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/upsidedown"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
)

// hits returns how many documents have term in their field text.
func hits(t testing.TB, idx index.Index, term string) (n int) {
	t.Helper()
	r, err := idx.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := searcher.NewTermSearcher(t.Context(), r, term, "text", 1, search.SearcherOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for sctx := (&search.SearchContext{DocumentMatchPool: search.NewDocumentMatchPool(s.DocumentMatchPoolSize(), 0)}); ; n++ {
		match, err := s.Next(sctx)
		if err != nil {
			t.Fatal(err)
		}
		if match == nil {
			return n
		}
		sctx.DocumentMatchPool.Put(match)
	}
}

// An index of bleve over the store finds what was indexed, and not what was deleted, also after it
// was opened again. Package bleve itself is left out, because it takes long to compile.
func TestIndex(t *testing.T) {
	config := map[string]interface{}{"path": t.TempDir() + "/store", "create_if_missing": true, "error_if_exists": true}
	begin := func() index.Index {
		idx, err := upsidedown.NewUpsideDownCouch(Name, config, index.NewAnalysisQueue(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := idx.Open(); err != nil {
			t.Fatal(err)
		}
		return idx
	}
	idx := begin()
	b := index.NewBatch()
	for i := range 100 {
		doc := document.NewDocument(fmt.Sprint(i))
		doc.AddField(document.NewTextField("text", nil, fmt.Appendf(nil, "%d", i%10)))
		b.Update(doc)
	}
	if err := idx.Batch(b); err != nil {
		t.Fatal(err)
	}
	if n := hits(t, idx, "7"); n != 10 {
		t.Errorf("%d documents have 7, want 10", n)
	}
	if err := idx.Delete("17"); err != nil {
		t.Fatal(err)
	}
	if err := idx.Close(); err != nil {
		t.Fatal(err)
	}
	config["create_if_missing"], config["error_if_exists"] = false, false
	again := begin()
	if n := hits(t, again, "7"); n != 9 {
		t.Errorf("%d documents have 7 after a deletion, want 9", n)
	}
	if n := hits(t, again, "absent"); n != 0 {
		t.Errorf("%d documents have an absent term", n)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
