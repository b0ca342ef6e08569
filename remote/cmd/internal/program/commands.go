package program

// The table of commands. Help, completion and the check of words all come from it, so a command is
// described in one place.

// programName is the name of the program.
const programName = "shale-remote"

// An entry is a command of the program.
// Its command of package cobra is made of this by command.
type entry struct {
	Run     func(c *call) (int, error) // it returns an exit status, or an error, whose status is failed
	Name    string
	Words   string // what follows the name, for help; words in brackets may be left out
	Short   string // a line
	Long    string // paragraphs; one about BUCKET follows where the words have it
	Options []option
}

// An option is an option of a command.
type option struct {
	Name string
	Help string // what it calls its argument stands in backquotes; without them it takes none
}

// buckets is the paragraph that says how a bucket is named.
const buckets = `
BUCKET is a directory, or s3://HOST[:PORT]/BUCKET/PREFIX for a bucket on a server that speaks S3 (s3+http:// without
TLS; ?region=REGION at the end if the server can't tell). Its keys come from AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials, never from the command line.`

// commands is the table, in the order of help.
var commands = []entry{
	{ship, "ship", "[DIR] BUCKET", "keep a store in a bucket while it is written: a backup that is never older than a second", `
Opens the store DIR for writing, and copies what is new into the bucket: the log each second, tables each minute. It
goes on until Ctrl-C or SIGTERM, and then ships the rest. Only one program at a time can have a store open. A program
that writes to its store by itself ships it by itself too, with remote.Open of module remote instead of shale.Open.
With --once it brings the bucket up to date and ends.`, []option{
		{"once", "ship everything that is new, and end"},
		{"every", "ship the log each `TIME` (1s)"},
		{"publish", "publish tables each `TIME` (1m)"},
		{"retain", "keep states for restores for this `TIME` (24h)"},
		{"strict", "acknowledge only writes that are in the bucket"},
		{"local", "keep at most so many `BYTES` of tables in DIR (500MB, 20GiB), and the others only in the bucket: hydrate brings them back"},
	}},
	{restore, "restore", "BUCKET DIR", "make a store from a bucket, as it is now or as it was at a time", `
Makes a store in the folder DIR, which must be empty or not exist. If a restore was interrupted, the same command goes
on with what is there. The command says to which point the store was restored, and what the bucket has of later times.
The store in the bucket stays as it is. Status 1 if that point can't be restored; then the nearest ones that can be are
named. If a table is damaged or missing, an earlier step and more of the logs lead to the same point, where the bucket
has them; the newest point is then the best that can be reached, and status 1 says that something is left out.`, []option{
		{"at", "a `POINT`: a time (2026-11-25T04:05:06Z, without Z or a zone local time, or 15m for a quarter of an hour ago), seq:N for a sequence number, step:N for a step"},
		{"pin", "restore the state that the pin `NAME` keeps"},
		{"salvage", "fetch damaged tables too, as they are: the command repair then saves what is provably correct"},
	}},
	{promote, "promote", "BUCKET DIR", "restore a store, and take it over from a program that still writes it", `
Makes a store in the folder DIR as restore does, and makes it the owner of BUCKET. A program that still ships to BUCKET
can't any more: with --strict it acknowledges no write from then on, otherwise none that BUCKET will ever have. All that
it had shipped is in DIR. To end a program that writes all the time takes as long as its tables take to be fetched.
Ship DIR to BUCKET afterwards. If it was interrupted, run it again; if it then says that DIR has a store, remove DIR first.`, []option{
		{"local", "fetch at most half of so many `BYTES` of tables (500MB, 20GiB), and leave the others in the bucket"},
	}},
	{hydrate, "hydrate", "[DIR] BUCKET", "bring back what a store larger than its disk has only in the bucket", `
A store that is kept in a bucket with a limit of local bytes removes tables from its folder DIR, and opens only with the
bucket. This fetches all of them. Then DIR opens without the bucket, and can be checked, repaired and copied. No program may
have it open, and the disk needs room for the whole store. If it was interrupted, run it again: it goes on with what is there,
and a program can open DIR with the bucket meanwhile. Nothing in the bucket changes. If the manifest of DIR is damaged,
it fetches what can still be told. Status 1 if something is damaged; all else was fetched then.`, []option{
		{"salvage", "fetch damaged tables too, as they are: the command repair then saves what is provably correct"},
	}},
	{verify, "verify", "[BUCKET]", "check that a store in a bucket can be restored", `
Compares the names and sizes of all objects with what the steps and pins need. That takes a request for 1,000 objects,
and changes nothing. It names the newest point that can be restored, and how old that is. Status 1 if something is
missing or damaged. The command check does the same for a store in a folder.`, []option{
		{"bucket", "the `BUCKET`, if it is not given as a word"},
		{"deep", "also read every table and every log, and check all of their bytes"},
	}},
	{where, "where", "[DIR] BUCKET", "say for each level which tables are on the disk, in the bucket, or in both", `
A program that opens the store DIR with LocalBytes of module remote lets go of tables that BUCKET has. This counts them. It
changes nothing, and the program may run. Status 1 if the store has no tables.`, nil},
	{pin, "pin", "BUCKET NAME", "keep the newest state of a store in a bucket from being deleted", `
A restore with --pin NAME then works until unpin, however old the state is. It costs the room of the tables that the
store itself does not need any more. NAME has lower-case letters, digits, '.', '-' and '_'.`, []option{
		{"step", "keep the state of step `N` instead of the newest"},
		{"lasts", "keep it for this `TIME`; without this option, until unpin"},
		{"owner", "who wants it: a `TEXT` for people"},
	}},
	{pins, "pins", "BUCKET", "list what keeps old states of a store in a bucket", "Readers have pins too, which expire.", nil},
	{collect, "collect", "BUCKET", "delete what nobody needs any more, where the writer may not delete", `
A program that ships a store deletes old objects by itself, each hour. If its keys have no right to delete, so that whoever
gets hold of them can't delete the backup, this command does it, with other keys, from time to time. The writer goes on
meanwhile. What can be restored stays as the writer says (--retain).`, nil},
	{unpin, "unpin", "BUCKET NAME", "let a pinned state go", `
Status 1 if there is no such pin.`, nil},
	{salvage, "salvage", "[DIR]", "list the writes of a fenced store that its bucket does not have", `
If another program has taken a store over, the old one can't write any more. What it had not shipped by then is only in
its folder. This prints it as a script for shale: one line put or del for each write, in their order. Ingested tables are
listed as comments. It changes nothing. Status 1 if there is nothing.`, nil},
	{monthlyCost, "cost", "", "say what a store in a bucket costs a month", `
Computes how many requests a store makes, how many bytes it keeps in the bucket, and what that costs. It asks no bucket.
Without options the store has 1 TB of tables, gets 1,000 writes and 100,000 lookups of absent keys each second, and keeps 50
GB of it on the local disk. Keys are written and asked in random order: a store whose newest keys are asked most costs less.`, []option{
		{"store", "the `SIZE` of all tables (1TB)"},
		{"writes", "a `NUMBER` a second (1000)"},
		{"key", "the `SIZE` of a key (32)"},
		{"value", "the `SIZE` of a value (100)"},
		{"compressed", "the `PART` of keys and values that tables take (1)"},
		{"absent", "a `NUMBER` of lookups of absent keys a second (100000)"},
		{"present", "a `NUMBER` of lookups of present keys a second (100)"},
		{"hits", "the `PART` of reads of remote tables that a cache answers (0)"},
		{"fpr", "the `PART` of lookups of absent keys for which a filter is wrong (0.0008)"},
		{"local", "the option LocalBytes of package remote, a `SIZE` (50GB); 0: all tables are local"},
		{"memtable", "the `SIZE` of a memtable (32MiB)"},
		{"table", "the `SIZE` of tables, which grow with their level (16MiB)"},
		{"every", "ship the log each `TIME` (1s)"},
		{"publish", "publish tables each `TIME` (1m)"},
		{"flush", "flush memtables that are older than this `TIME` (15m)"},
		{"retain", "keep states for restores for this `TIME` (24h)"},
		{"readers", "a `NUMBER` of readers that follow (0); what they look up is not counted"},
		{"put-price", "`DOLLARS` for 1,000 PUT or LIST (0.005)"},
		{"get-price", "`DOLLARS` for 1,000 GET or HEAD (0.0004)"},
		{"stored-price", "`DOLLARS` for a GB in the bucket for a month (0.023)"},
		{"out-price", "`DOLLARS` for a GB that leaves the bucket's region (0)"},
	}},
	{demo, "demo", "[BUCKET]", "show a store that is larger than the room it has on this disk", `
Makes what a crawler remembers: which URLs it has seen. Most of it lies in the bucket, a temporary folder unless BUCKET names
another place, which must be empty. It then asks for URLs that are new and for some that are not, counts the requests, and draws
where the bytes are. What is in a BUCKET that was named stays there.`, []option{
		{"urls", "the `NUMBER` of URLs (1000000)"},
		{"local", "the `SIZE` that tables may take on this disk (200MB, or a tenth of the URLs' text if that is less)"},
		{"asked", "the `NUMBER` of new URLs that are asked for; a hundredth as many seen ones are (100000)"},
	}},
}
