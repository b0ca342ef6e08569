package main

// A display is how tables, keys and values are laid out.
type display int

const (
	showText      display = iota // tables with spaces, keys and values with tabs
	showBox                      // drawn with lines, cut to the width of the terminal
	showLines                    // name = value, one a line
	showHex                      // as text, with keys and values in hexadecimal
	showJSON                     // one array of objects
	showJSONLines                // an object a line
	showCSV                      // RFC 4180, with a line of titles
	showTSV                      // words with tabs, with a line of titles
)

// displayNames are what .mode and --mode take.
var displayNames = []string{"text", "box", "lines", "hex", "json", "jsonl", "csv", "tsv"}

func (d display) String() string { return displayNames[d] }
