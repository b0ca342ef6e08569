// Package tablefs reads the tables and sidecars of a store from its bucket as if they were files: an FS lies over a local
// file system and finds there what the local one lacks. What every lookup needs of a table, its tail, is kept for good
// (tailcache.go, tailfile.go); pages of data blocks are cached (pagecache.go), fetched once for all that wait (fetch.go),
// and fetched ahead for readers that go through a table (sequential.go). learn.go says which files may be opened.
// A File describes a table's object (file.go).
package tablefs
