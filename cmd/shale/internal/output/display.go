package output

// A Display is how tables, keys and values are laid out.
//
// A mode is for people (text, hex, raw) or for programs (json, jsonl, csv). Its number is an index
// of DisplayNames.
type Display int

// In every mode but ShowRaw, bytes that could control a terminal are escaped.
const (
	ShowText      Display = iota // tables with spaces, keys and values with tabs
	ShowHex                      // as text, with keys and values in hexadecimal
	ShowRaw                      // as text, with the bytes of keys and values
	ShowJSON                     // one array of objects
	ShowJSONLines                // an object on each line
	ShowCSV                      // RFC 4180, with a line of titles
)

// DisplayNames are the names of the modes, for .mode and --mode.
var DisplayNames = []string{"text", "hex", "raw", "json", "jsonl", "csv"}

// String returns the name of the mode.
func (d Display) String() string { return DisplayNames[d] }

// Format returns how keys and values are written in this mode. The modes for programs have rules of
// their own for bytes that are not text, and call them with AsWords.
func (d Display) Format() Format {
	switch d {
	case ShowHex:
		return AsHex
	case ShowRaw:
		return AsBytes
	}
	return AsWords
}
