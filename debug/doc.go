// Package debug shows what a store does: a page for people, JSON for programs,
// and metrics for Prometheus and expvar. A program that does not import it links
// nothing of it.
//
//	http.Handle("/debug/shale/", debug.Handler(db))
//
// Below the prefix at which it is mounted, whichever that is, Handler serves
//
//	./                     the page; with ?format=json, all panels as JSON
//	api/NAME               one panel as JSON; api/ lists them
//	api/explain?key=KEY    how a lookup of a key goes
//	tree.svg               the tables over the keys; ?by=fpr, bits or size
//	metrics                for Prometheus, in its text format
//
// Everything is read-only: methods other than GET and HEAD are refused, and
// nothing that can be asked changes the store. The page needs nothing from
// other hosts. Keys are shown, also the bounds of tables; values only with the
// option ShowValues. Who may see it is for the program to say: mount the
// handler where only they can reach it, or behind a check of its own.
//
// Nothing is measured for it that is not counted anyway, and nothing runs while
// nobody looks.
package debug
