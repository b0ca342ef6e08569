package output

// A Display is how tables, keys and values are laid out.
type Display int

const (
	ShowText      Display = iota // tables with spaces, keys and values with tabs
	ShowBox                      // drawn with lines, cut to the width of the terminal
	ShowLines                    // a line "name = value" for each field
	ShowHex                      // as text, with keys and values in hexadecimal
	ShowRaw                      // as text, with the bytes of keys and values
	ShowJSON                     // one array of objects
	ShowJSONLines                // an object on each line
	ShowCSV                      // RFC 4180, with a line of titles
	ShowTSV                      // words with tabs, with a line of titles
)

// DisplayNames are the names of the modes, for .mode and --mode.
var DisplayNames = []string{"text", "box", "lines", "hex", "raw", "json", "jsonl", "csv", "tsv"}

func (d Display) String() string { return DisplayNames[d] }
