package command

var (
	formatOptions = []Option{
		{Name: "hex", help: "print in hexadecimal"},
		{Name: "raw", help: "print the bytes as they are"},
	}
	boundOptions = []Option{
		{Name: "from", Arg: "KEY", help: "from this key on"},
		{Name: "to", Arg: "KEY", help: "up to this key, which is left out"},
	}
	endOptions  = Join(boundOptions, []Option{{Name: "keys", help: "print no value"}}, formatOptions)
	scanOptions = Join(boundOptions, []Option{
		{Name: "reverse", help: "from the last key to the first"},
		{Name: "limit", Arg: "N", help: "stop after N entries"},
		{Name: "keys", help: "print no values"},
	}, formatOptions)
)

func dataCommands() []Command {
	return []Command{
		{Name: "get", Words: "KEY", Options: formatOptions, Least: 1, Most: 1, Keys: 1, Access: Reads, Run: get,
			Short: "print the value of a key",
			Long:  "Prints the value as a word: bare, or quoted where it has to be. Status 1 if the key is absent."},
		{Name: "put", Words: "KEY VALUE", Least: 2, Most: 2, Keys: 1, data: 2, late: true, Access: creates, Run: put,
			Short: "set the value of a key",
			Long: "Creates the store if it is not there and its folder is empty or not there; shale -new creates it\n" +
				"beside other files too. As the value, a bare - stands for standard input to its end, byte for byte;\n" +
				"not in scripts read from there, nor at the prompt. As key and value, and wherever\n" +
				"another command takes a key, @FILE stands for the bytes of that file; write \"@x\" for the word @x."},
		{Name: "del", Words: "KEY...", Least: 1, Most: -1, Keys: -1, Access: writes, Run: del,
			Short: "delete keys, all at once",
			Long:  "Deletes the keys in one atomic batch. Deleting an absent key is no error."},
		{Name: "has", Words: "KEY...", Least: 1, Most: -1, Keys: -1, Access: Reads, Run: has,
			Short: "tell which keys are there",
			Long:  "Prints each key with present or absent. Status 0 if all are there, 1 if any is missing."},
		{Name: "may", Words: "KEY...", Least: 1, Most: -1, Keys: -1, Access: Reads, Run: may,
			Short: "the same by the filters alone, reading nothing",
			Long: "Prints each key with maybe or absent. absent is certain; maybe is wrong as often as the filters'\n" +
				"false positive rate says. Status 0 if all may be there, 1 if any is certainly missing."},
		{Name: "scan", Words: "[PREFIX]", Options: scanOptions, Least: 0, Most: 1, Keys: 1, Access: Reads, Run: scan,
			Short: "print keys and values in order",
			Long: "Prints the entries whose keys start with PREFIX and lie between --from and --to, one a line: key, tab,\n" +
				"value. Status 1 if there are none. `put ` before each line makes a file that batch understands."},
		{Name: "count", Words: "[PREFIX]", Options: boundOptions, Least: 0, Most: 1, Keys: 1, Access: Reads, Run: count,
			Short: "count keys",
			Long:  "Prints how many keys start with PREFIX and lie between --from and --to. Status 1 if there are none."},
		{Name: "first", Words: "[PREFIX]", Options: endOptions, Least: 0, Most: 1, Keys: 1, Access: Reads, Run: first,
			Short: "print the first key, and its value",
			Long:  "Prints the first entry whose key starts with PREFIX and lies between --from and --to. Status 1 if there is none."},
		{Name: "last", Words: "[PREFIX]", Options: endOptions, Least: 0, Most: 1, Keys: 1, Access: Reads, Run: last,
			Short: "print the last key, and its value",
			Long:  "Prints the last entry whose key starts with PREFIX and lies between --from and --to. Status 1 if there is none."},
		{Name: "batch", Words: "FILE", Least: 1, Most: 1, late: true, Access: creates, Run: batch,
			Short: "apply a file of put and del lines, atomically",
			Long: "Each line is `put KEY VALUE` or `del KEY...`; empty lines and lines that begin with # are passed\n" +
				"over. Either all is applied, or nothing if a line has an error. A bare - stands for standard input.\n" +
				"A batch of many lines is far faster than as many puts. Creates the store as put does."},
	}
}
