package main

import "regexp"

// A unit says how a figure is printed.
type unit int

const (
	inSeconds unit = iota
	inBytes
)

// A row is a line of the table that is printed.
type row struct {
	name string
	unit unit
}

// A stage is what a store is used for while a group is measured. The stages come one after
// the other, and in the last one the copy of a store changes.
type stage int

const (
	closed  stage = iota // processes of their own open the store
	read                 // the store is open and is not written to
	written              // a copy of the store is open, and it is written to
	stages
)

// A group is a number of rows that are measured together. measure returns a figure for each.
type group struct {
	stage   stage
	rows    []row
	measure func(s *session) ([]float64, error)
}

// groups are all that is measured, in this order. The last ones leave the most behind.
var groups = []group{
	{closed, []row{
		{"Open, in a new process", inSeconds}, {"until filters and indexes are in memory", inSeconds},
		{"Close", inSeconds},
		{"memory of that process", inBytes},
		{"Go heap for each table", inBytes}, {"memory outside of it for each table", inBytes},
		{"memory for each key", inBytes}, {"of that, filters", inBytes}, {"of that, indexes", inBytes},
	}, (*session).opens},
	{closed, []row{{"pick of a compaction", inSeconds}}, (*session).picks},
	{closed, []row{{"pick of level 0 with the last level in it", inSeconds}}, (*session).picksOfLevel0},
	{read, []row{{"Get, present", inSeconds}}, (*session).hits},
	{read, []row{{"Get, absent", inSeconds}}, (*session).misses},
	{read, []row{{"Get, absent, anywhere", inSeconds}}, (*session).missesAnywhere},
	{read, []row{{"seek", inSeconds}}, (*session).seeks},
	{read, []row{{"NewIterator and Close", inSeconds}}, (*session).iterators},
	{read, []row{{"Snapshot and Close", inSeconds}}, (*session).snapshots},
	{read, []row{{"Metrics", inSeconds}}, (*session).metrics},
	{read, []row{{"Tables, for each table", inSeconds}}, (*session).tables},
	{written, []row{{"Put", inSeconds}}, (*session).puts},
	{written, []row{{"longest of Puts alone, in 100 ms", inSeconds}}, (*session).putsAlone},
	{written, []row{{"flush and install", inSeconds}, {"Metrics after a flush", inSeconds}, {"Compact of that table", inSeconds}}, (*session).flushes},
	{written, []row{{"Checkpoint", inSeconds}, {"longest Put next to a Checkpoint", inSeconds}}, (*session).checkpoints},
	{written, []row{{"Ingest of 1 table", inSeconds}, {"longest Put next to an Ingest of 1 table", inSeconds}}, (*session).ingestsOne},
	{written, []row{{"Ingest of 1,000 tables", inSeconds}, {"longest Put next to an Ingest of 1,000", inSeconds}}, (*session).ingestsMany},
}

// chosen returns the groups that have rows which the expression matches.
func chosen(rows *regexp.Regexp) []group {
	var some []group
	for _, g := range groups {
		for _, r := range g.rows {
			if rows.MatchString(r.name) {
				some = append(some, g)
				break
			}
		}
	}
	return some
}

// rowNames returns the names of all rows.
func rowNames() []string {
	var names []string
	for _, g := range groups {
		for _, r := range g.rows {
			names = append(names, r.name)
		}
	}
	return names
}
