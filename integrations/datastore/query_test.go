package shaleds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"github.com/shaledb/shale"
)

// The store walks only what a query needs: counted in the entries of the iterator that it stepped to.
func TestQuery_ReadsNoMoreThanNeeded(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	for _, dir := range []string{"a", "b", "bb", "c"} {
		for i := range 100 {
			put(t, d, fmt.Sprintf("/%s/%02d", dir, i), "value")
		}
	}
	put(t, d, "/b", "no descendant of itself")
	for _, c := range []struct {
		q    query.Query
		want []string
	}{
		{query.Query{Prefix: "b", Orders: []query.Order{query.OrderByKey{}}, Limit: 2}, []string{"/b/00", "/b/01"}},
		{query.Query{Prefix: "/b/", Orders: []query.Order{query.OrderByKeyDescending{}}, Offset: 1, Limit: 2}, []string{"/b/98", "/b/97"}},
		{query.Query{Orders: []query.Order{&query.OrderByKeyDescending{}, query.OrderByValue{}}, Limit: 1, KeysOnly: true}, []string{"/c/99"}},
	} {
		counted := &countingReader{Reader: d.DB}
		results, err := view{counted, noLock{}}.Query(ctx, c.q)
		if err != nil {
			t.Fatal(err)
		}
		_, got := rest(t, results)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.q, got, c.want)
		}
		if want := shale.Prefix(map[bool]string{true: "/b/"}[c.q.Prefix != ""]); string(counted.asked.Lower) != string(want.Lower) ||
			string(counted.asked.Upper) != string(want.Upper) || counted.asked.KeysOnly != c.q.KeysOnly {
			t.Errorf("%v: the store was asked for %+v", c.q, counted.asked)
		}
	}
}

// rest returns the results of a query, and their keys.
func rest(t *testing.T, results query.Results) (entries []query.Entry, keys []string) {
	t.Helper()
	entries, err := results.Rest()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return entries, keys
}

// A countingReader remembers for what the store was asked.
type countingReader struct {
	shale.Reader
	asked shale.Range
}

func (c *countingReader) NewIterator(r shale.Range) *shale.Iterator {
	c.asked = r
	return c.Reader.NewIterator(r)
}

// Filters and orders see values also if the query wants only keys, and results have no values then.
func TestQuery_KeysOnlyByValue(t *testing.T) {
	d := open(t, shale.Options{})
	put(t, d, "a", "3")
	put(t, d, "b", "1")
	put(t, d, "c", "2")
	for _, c := range []struct {
		q    query.Query
		want []string
		size int
	}{
		{query.Query{KeysOnly: true, Filters: []query.Filter{query.FilterValueCompare{Op: query.GreaterThan, Value: []byte("1")}}}, []string{"/a", "/c"}, 1},
		{query.Query{KeysOnly: true, Orders: []query.Order{query.OrderByValue{}}}, []string{"/b", "/c", "/a"}, 1},
		{query.Query{KeysOnly: true, Filters: []query.Filter{query.FilterKeyPrefix{Prefix: "/b"}}}, []string{"/b"}, 1},
		{query.Query{KeysOnly: true, Limit: 1}, []string{"/a"}, -1},
		{query.Query{KeysOnly: true, ReturnsSizes: true}, []string{"/a", "/b", "/c"}, 1},
	} {
		results, err := d.Query(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		entries, got := rest(t, results)
		for _, e := range entries {
			if e.Value != nil || e.Size != c.size {
				t.Errorf("%v: value %q, size %d, want none and %d", c.q, e.Value, e.Size, c.size)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.q, got, c.want)
		}
	}
}

// Results have one error and then an end, also when the store is closed or the context is done in
// their middle; Close may come early, and twice.
func TestQuery_Ends(t *testing.T) {
	d := open(t, shale.Options{})
	put(t, d, "a", "1")
	put(t, d, "b", "2")
	ctx, cancel := context.WithCancel(t.Context())
	begin := func() query.Results {
		results, err := d.Query(ctx, query.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if first, ok := results.NextSync(); !ok || first.Key != "/a" {
			t.Fatalf("first %v", first)
		}
		return results
	}
	ends := func(results query.Results, want error) {
		t.Helper()
		if r, ok := results.NextSync(); !ok || !errors.Is(r.Error, want) || r.Key != "" {
			t.Errorf("%+v, %v, want %v", r, ok, want)
		}
		if r, ok := results.NextSync(); ok {
			t.Errorf("%+v after the error", r)
		}
	}
	early := begin()
	if err := errors.Join(early.Close(), early.Close()); err != nil {
		t.Error(err)
	}
	canceled, closed := begin(), begin()
	cancel()
	ends(canceled, context.Canceled)
	ctx = t.Context()
	open := begin()
	if n := d.DB.Metrics().OpenIterators; n != 2 { // open and closed
		t.Errorf("%d iterators are open", n)
	}
	if err := errors.Join(d.Close(), closed.Close()); err != nil {
		t.Error(err)
	}
	ends(open, shale.ErrClosed)
	if results, err := d.Query(t.Context(), query.Query{}); err == nil {
		ends(results, shale.ErrClosed)
	}
	if _, err := ds.GetBackedSize(t.Context(), d, ds.NewKey("a")); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("Get of a closed store = %v", err)
	}
}
