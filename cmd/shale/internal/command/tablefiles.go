package command

const formatArg = "lines|tsv|csv|jsonl"

var (
	importOptions = []Option{
		{Name: "format", Arg: formatArg, help: "what the file is; else its name's ending says it, .tsv, .csv or .jsonl, else it is lines"},
		{Name: "sorted", help: "the keys ascend: write tables right away, all or nothing"},
		{Name: "value", Arg: "VALUE", help: "of all lines, which are keys; in csv the column, in jsonl the field of the value"},
		{Name: "key", Arg: "COLUMN", help: "of the key: in csv a number or a name in the first line, in jsonl a field"},
		{Name: "header", help: "csv: the first line is names of columns, if they are given by number"},
		{Name: "plain", help: "what begins with a quote is no quoted word"},
		{Name: "on-error", Arg: "stop|skip", help: "what to do with a line that is wrong; stop if not given"},
		{Name: "from-line", Arg: "N", help: "pass over the lines before"},
		{Name: "limit", Arg: "N", help: "stop after N entries"},
	}
	exportOptions = Join(boundOptions, []Option{
		{Name: "format", Arg: formatArg, help: "of the file; else its name's ending says it, else it is tsv"},
	})
)

func fileCommands() []Command {
	return []Command{
		{Name: "import", Words: "FILE", Options: importOptions, Least: 1, Most: 1, late: true, Access: creates, Run: importFile,
			Short: "put the entries of a file, of lines, tsv, csv or jsonl",
			Long: "lines: each line is a key; its value is empty, or that of --value. tsv: key, tab, value. csv: RFC 4180, key and\n" +
				"value in the first two columns, or in --key and --value. jsonl: objects with \"key\" and \"value\", or \"key64\" and\n" +
				"\"value64\" in base64; a value that is no string is taken as it is written, null as nothing, and counted. A field of\n" +
				"the first three that begins with a quote is a quoted word, as printed by scan and written by export, unless\n" +
				"--plain is given. Empty lines are passed over. FILE may be -, standard input.\n" +
				"Entries are written some thousand at a time, and are durable at the end. A line that is wrong ends the import,\n" +
				"or is skipped and counted with --on-error skip: then the status is 1. However it ends, it says how many entries\n" +
				"were written, and with which --from-line to go on. --sorted is about twice as fast, needs keys that\n" +
				"ascend, and writes all or nothing. A key has at most 65,535 bytes, a value 268,435,456. Creates the store as put\n" +
				"does, once the file could be opened."},
		{Name: "export", Words: "[PREFIX] FILE", Options: exportOptions, Least: 1, Most: 2, Access: Reads, Run: exportFile,
			Short: "write entries to a file that import reads",
			Long: "Writes the entries whose keys start with PREFIX and lie between --from and --to, as they are at one moment,\n" +
				"in a format of import. The file is replaced as a whole, or not at all; - stands for standard output. lines holds\n" +
				"keys alone, and refuses entries with different values. import of the file gives the same entries, whatever\n" +
				"bytes are in them. Status 1 if there are none."},
	}
}
