package main

var (
	formatOptions = []option{
		{name: "hex", help: "print in hexadecimal"},
		{name: "raw", help: "print the bytes as they are"},
	}
	boundOptions = []option{
		{name: "from", arg: "KEY", help: "from this key on"},
		{name: "to", arg: "KEY", help: "up to this key, which is left out"},
	}
	endOptions  = join(boundOptions, []option{{name: "keys", help: "print no value"}}, formatOptions)
	scanOptions = join(boundOptions, []option{
		{name: "reverse", help: "from the last key to the first"},
		{name: "limit", arg: "N", help: "stop after N entries"},
		{name: "keys", help: "print no values"},
	}, formatOptions)
)

func dataCommands() []command {
	return []command{
		{name: "get", words: "KEY", options: formatOptions, least: 1, most: 1, keys: 1, access: reads, run: get,
			short: "print the value of a key",
			long:  "Prints the value as a word: bare, or quoted where it has to be. Status 1 if the key is absent."},
		{name: "put", words: "KEY VALUE", least: 2, most: 2, keys: 1, data: 2, late: true, access: creates, run: put,
			short: "set the value of a key",
			long: "Creates the store if it is not there and its folder is empty or not there; shale -new creates it\n" +
				"beside other files too. As the value, a bare - stands for standard input to its end, byte for byte;\n" +
				"not in scripts read from there, nor at the prompt. As key and value, and wherever\n" +
				"another command takes a key, @FILE stands for the bytes of that file; write \"@x\" for the word @x."},
		{name: "del", words: "KEY...", least: 1, most: -1, keys: -1, access: writes, run: del,
			short: "delete keys, all at once",
			long:  "Deletes the keys in one atomic batch. Deleting an absent key is no error."},
		{name: "has", words: "KEY...", least: 1, most: -1, keys: -1, access: reads, run: has,
			short: "tell which keys are there",
			long:  "Prints each key with present or absent. Status 0 if all are there, 1 if any is missing."},
		{name: "may", words: "KEY...", least: 1, most: -1, keys: -1, access: reads, run: may,
			short: "the same by the filters alone, reading nothing",
			long: "Prints each key with maybe or absent. absent is certain; maybe is wrong as often as the filters'\n" +
				"false positive rate says. Status 0 if all may be there, 1 if any is certainly missing."},
		{name: "scan", words: "[PREFIX]", options: scanOptions, least: 0, most: 1, keys: 1, access: reads, run: scan,
			short: "print keys and values in order",
			long: "Prints the entries whose keys start with PREFIX and lie between --from and --to, one a line: key, tab,\n" +
				"value. Status 1 if there are none. `put ` before each line makes a file that batch understands."},
		{name: "count", words: "[PREFIX]", options: boundOptions, least: 0, most: 1, keys: 1, access: reads, run: count,
			short: "count keys",
			long:  "Prints how many keys start with PREFIX and lie between --from and --to. Status 1 if there are none."},
		{name: "first", words: "[PREFIX]", options: endOptions, least: 0, most: 1, keys: 1, access: reads, run: first,
			short: "print the first key, and its value",
			long:  "Prints the first entry whose key starts with PREFIX and lies between --from and --to. Status 1 if there is none."},
		{name: "last", words: "[PREFIX]", options: endOptions, least: 0, most: 1, keys: 1, access: reads, run: last,
			short: "print the last key, and its value",
			long:  "Prints the last entry whose key starts with PREFIX and lies between --from and --to. Status 1 if there is none."},
		{name: "batch", words: "FILE", least: 1, most: 1, late: true, access: creates, run: batch,
			short: "apply a file of put and del lines, atomically",
			long: "Each line is `put KEY VALUE` or `del KEY...`; empty lines and lines that begin with # are passed\n" +
				"over. Either all is applied, or nothing if a line has an error. A bare - stands for standard input.\n" +
				"A batch of many lines is far faster than as many puts. Creates the store as put does."},
	}
}
