package command

func pageCommands() []Command {
	return []Command{
		{Name: "serve", Words: "[DIR]", Least: 0, Most: 1, Access: NeedsNothing, Run: serve,
			Options: []Option{
				{Name: "addr", Arg: "HOST:PORT", help: "where to listen; default localhost:6070"},
				{Name: "every", Arg: "DURATION", help: "how often to open the store anew; default 10s"},
				{Name: "values", help: "show values too"},
				{Name: "public", help: "listen where other machines can reach it"},
			},
			Short: "show the store as a page for a browser",
			Long: "Shows the tree, its filters, memory, and how a lookup of any key goes, of the store or of that in DIR, until\n" +
				"Ctrl-C. It reads only, also beside a program that has the store open, and shows the state on disk: while\n" +
				"somebody looks it opens the store anew every so often. Rates, compactions and stalls are known to the program\n" +
				"that writes alone: there, mount debug.Handler. Keys can be seen by all who reach the address; values only with --values."},
	}
}
