// Package debug shows what a store does: a page for people, JSON for programs, and metrics
// for Prometheus and expvar. A program that does not import it links nothing of it.
//
//	http.Handle("/debug/shale/", debug.Handler(db))
//
// Handler serves these paths below the prefix at which it is mounted, whatever that is:
//
//	./                     the page; with ?format=json, all panels as JSON
//	api/NAME               one panel as JSON; api/ lists them
//	api/explain?key=KEY    how a lookup of a key goes
//	tree.svg               the tables over the keys; ?by=fpr, bits or size
//	metrics                for Prometheus, in its text format
//
// Everything is read-only: methods other than GET and HEAD are refused, and no
// request changes the store. The page loads nothing from other hosts. It shows
// keys, also as the bounds of tables. It shows values only with the option
// ShowValues. The program decides who may see it: mount the handler where only they
// can reach it, or behind a check of its own.
//
// The store measures nothing for this package that it does not count anyway.
// Nothing runs while nobody looks.
package debug
