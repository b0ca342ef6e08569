package main

func reportCommands() []command {
	return []command{
		{name: "bench", words: "[DIR] [-- OPTIONS]", least: 0, most: -1, access: needsNothing, run: bench,
			short: "measure what filters save, and make a page of figures",
			long: "Makes stores of its own in a temporary folder, reads them with filters and with filters ignored, and\n" +
				"writes report.html, figures and all numbers into DIR (shale-report if not given). It takes some minutes;\n" +
				"bench -- -short takes seconds, to see what will come. The keys are the lines of the Go sources, if Go is\n" +
				"installed; bench -- -keys FILE -absent FILE takes others, one a line. bench -- -h lists the options.\n" +
				"The store of -C has no part in it."},
	}
}
