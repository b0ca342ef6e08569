package program

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
	"github.com/shaledb/shale/remote"
)

// A config is what the options of serve set.
type config struct {
	cluster.Options // as far as options of serve set them; so are these two
	server.Config
	shipping remote.Options

	// The folder of the member, and settings of raft and of the store that are no fields of the
	// above.
	dir       string
	heartbeat time.Duration
	raftLog   string
	cache     int64
	sync      string // of a server alone

	// What the servers for clients and for pages listen on, and show.
	addr    string // for clients
	http    string // "": no pages
	reads   string
	clients map[string]string // where clients find each member
	values  bool

	// Who may connect: see checkReach and security.
	unprotected bool
	secrets     secrets
	tlsClients  bool

	backup string
}

// The values of --reads.
const (
	readsLinear = "linear"
	readsLocal  = "local"
)

// Ports on loopback that options have by default.
const (
	defaultAddr   = "127.0.0.1:6380"
	defaultListen = "127.0.0.1:7380"
	defaultHTTP   = "127.0.0.1:8380"
)

// flags adds the options of serve to a command.
func (c *config) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.sync, "sync", syncAlways, "when writes of a server alone are on disk: always (before the reply), everysec, or no (the system decides)")
	f.StringVar(&c.ID, "id", "", "be a member of a group; its name there, for good (letters, digits, '.', '_', '-')")
	f.BoolVar(&c.Bootstrap, "bootstrap", false, "make a new group with this member alone, unless DIR has one, or a member at --join has")
	f.StringSliceVar(&c.Join, "join", nil, "enter the group that the member at this `HOST:PORT` (its --listen) is in; several with commas")
	f.BoolVar(&c.Learner, "learner", false, "enter without a vote: get all writes, serve reads, count for no majority")
	f.StringVar(&c.Listen, "listen", defaultListen, "`HOST:PORT` for other members")
	f.StringVar(&c.Advertise, "advertise", "", "`HOST:PORT` where other members find this one, if it is not --listen")
	f.StringVar(&c.addr, "addr", defaultAddr, "`HOST:PORT` for clients of Redis")
	f.StringVar(&c.http, "http", defaultHTTP, "`HOST:PORT` for pages, metrics and the commands join, leave and transfer; none: no pages")
	f.StringVar(&c.reads, "reads", readsLinear, "linear: a read sees all writes that were answered before; local: this member's state, which may be older")
	f.BoolVar(&c.Forward, "forward", true, "send writes to the leader; --forward=false: answer MOVED or READONLY with the leader's name instead")
	f.StringToStringVar(&c.clients, "clients", nil, "where clients find the members, for MOVED and CLUSTER: `ID=HOST:PORT`,...")
	f.DurationVar(&c.Timeout, "timeout", 5*time.Second, "how long a command may wait for the group, such as for the election of a leader")
	f.Int64Var(&c.MaxCommand, "max-command", 32<<20, "bytes of a command with its arguments; a larger one ends the connection")
	f.IntVar(&c.MaxClients, "max-clients", 1000, "connections of clients at a time")
	f.Int64Var(&c.MaxBuffers, "max-buffers", 256<<20, "bytes of commands and replies that are under way, of all clients together, beyond 128 KiB that each has free")
	f.Int64Var(&c.cache, "cache", 0, "bytes of the block cache; 0: the store's default")
	f.Int64Var(&c.SnapshotRate, "snapshot-rate", 0, "bytes a second with which a leader sends its state to a member that needs all of it; 0: as fast as it goes")
	f.Int64Var(&c.LogSize, "log-size", 256<<20, "bytes of writes after which a snapshot is made and the log cut off; a quarter of them stays")
	f.Int64Var(&c.LogSizeBehind, "log-size-behind", 4<<30, "bytes of writes that the leader keeps for a member that is getting the state")
	f.BoolVar(&c.values, "values", false, "show values on the pages, not only keys")
	f.DurationVar(&c.heartbeat, "heartbeat", time.Second, "how long a member hears nothing from its leader before it asks to be elected")
	f.StringVar(&c.raftLog, "raft-log", "warn", "what to print of raft: off, error, warn, info or debug")
	c.secrets.flags(cmd, true)
	f.BoolVar(&c.tlsClients, "tls-clients", false, "clients must show a certificate that --tls-ca has signed")
	f.BoolVar(&c.unprotected, "unprotected", false, "listen where other machines can reach it without a password or TLS")
}

// check returns an error for options that make no sense. It names the option and the next step.
func (c *config) check() error {
	switch {
	case c.ID == "" && c.ofGroup() != "":
		return fmt.Errorf("%s is for a member of a group: name the member, such as --id a", c.ofGroup())
	case c.sync != syncAlways && c.sync != syncEverysec && c.sync != syncNo:
		return fmt.Errorf("--sync %s: write always, everysec or no", c.sync)
	case c.ID != "" && c.sync != syncAlways:
		return fmt.Errorf("--sync %s is for a server alone: a member's writes are on disk at a majority before they are answered", c.sync)
	case c.Bootstrap && c.Learner:
		return errors.New("--learner: the first member of a group needs a vote; leave out one of --learner and --bootstrap")
	case c.reads != readsLinear && c.reads != readsLocal:
		return fmt.Errorf("--reads %s: write linear or local", c.reads)
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout %v: write a time above 0, such as 5s", c.Timeout)
	case c.MaxCommand < 1<<10 || c.MaxCommand > 64<<20:
		return fmt.Errorf("--max-command %d: write a number of bytes from 1024 to %d", c.MaxCommand, 64<<20)
	case c.MaxBuffers < 4*c.MaxCommand:
		return fmt.Errorf("--max-buffers %d: write at least four times --max-command, which is %d", c.MaxBuffers, c.MaxCommand)
	case c.MaxClients < 1:
		return fmt.Errorf("--max-clients %d: write a number from 1 up", c.MaxClients)
	case c.cache < 0:
		return fmt.Errorf("--cache %d: write a number of bytes", c.cache)
	case c.shipping.Retain < 0:
		return fmt.Errorf("--backup-retain %v: write a time such as 24h", c.shipping.Retain)
	case c.backup != "" && c.shipping.MaxKept < 1:
		return fmt.Errorf("--backup-keep %d: write a number of bytes", c.shipping.MaxKept)
	case c.heartbeat < 20*time.Millisecond:
		return fmt.Errorf("--heartbeat %v is too short: 20ms is the shortest", c.heartbeat)
	case c.tlsClients && (c.secrets.ca == "" || c.secrets.membersCA == ""):
		return errors.New("--tls-clients needs --tls-ca, which signs the certificates of clients, and --tls-members-ca: with one authority for both, each client could become a member")
	case c.secrets.membersCA != "" && c.secrets.cert == "":
		return errors.New("--tls-members-ca needs --tls-cert and --tls-key")
	}
	if hclog.LevelFromString(c.raftLog) == hclog.NoLevel {
		return fmt.Errorf("--raft-log %s: write off, error, warn, info or debug", c.raftLog)
	}
	for id, addr := range c.clients {
		if err := checkAddr("clients "+id+"=", addr); err != nil {
			return err
		}
	}
	for _, a := range []struct {
		option, addr string
		needed       bool
	}{{"addr", c.addr, true}, {"listen", c.Listen, true}, {"advertise", c.Advertise, false}, {"http", c.http, false}} {
		if a.addr == "" && !a.needed {
			continue
		}
		if err := checkAddr(a.option+" ", a.addr); err != nil {
			return err
		}
	}
	for _, a := range c.Join {
		if err := checkAddr("join ", a); err != nil {
			return err
		}
	}
	return c.checkReach()
}

// ofGroup returns an option that only a member of a group has, if there is one.
func (c *config) ofGroup() string {
	for option, given := range map[string]bool{
		"--bootstrap": c.Bootstrap, "--join": len(c.Join) > 0, "--learner": c.Learner, "--advertise": c.Advertise != "",
		"--listen": c.Listen != defaultListen, "--clients": len(c.clients) > 0, "--reads": c.reads != readsLinear, "--forward": !c.Forward,
	} {
		if given {
			return option
		}
	}
	return ""
}

// checkReach refuses addresses that other machines can reach, unless strangers can do nothing there.
//
// Redis in its protected mode refuses strangers at the connection. Here the start fails, because a
// member that is reachable and refuses everybody looks like one that works.
func (c *config) checkReach() error {
	if c.unprotected {
		return nil
	}
	const or = "listen on 127.0.0.1, or give --unprotected if only friends can reach it"
	switch hasTLS, password := c.secrets.cert != "", c.secrets.password != ""; {
	case !isOwn(c.addr) && !password && !c.tlsClients:
		return fmt.Errorf("--addr %s: other machines can reach it, and could read and write everything. Set a password (--password-file), or %s", c.addr, or)
	case c.http != "" && !isOwn(c.http) && !password && !c.tlsClients:
		return fmt.Errorf("--http %s: other machines can reach it, and could change the group. Set a password (--password-file), or %s", c.http, or)
	case !isOwn(c.Listen) && !hasTLS:
		return fmt.Errorf("--listen %s: other machines can reach it, and could become members. Give --tls-cert, --tls-key and --tls-ca, or %s", c.Listen, or)
	}
	return nil
}

// warnings returns what an operator should know about options that are allowed.
func (c *config) warnings() []string {
	var w []string
	if c.secrets.cert == "" && c.secrets.password != "" && !isOwn(c.addr) {
		w = append(w, fmt.Sprintf("--addr %s has no TLS: the password and all data travel readable for others; --tls-cert, --tls-key and --tls-ca change that", c.addr))
	}
	if c.unprotected && (!isOwn(c.addr) || !isOwn(c.Listen) || c.http != "" && !isOwn(c.http)) {
		w = append(w, "--unprotected: whoever can reach this machine can read and write everything, and change the group")
	}
	if c.reads == readsLocal {
		w = append(w, "--reads local: reads on this member may be older than writes that were answered")
	}
	return w
}

// checkAddr returns an error unless addr is an address to listen on or to find somebody at.
func checkAddr(option, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--%s%s is not an address: write HOST:PORT, such as %s", option, addr, defaultAddr)
	}
	return nil
}

// isOwn reports whether only this machine can reach an address, whose port may be missing.
//
// An empty host means all addresses of the machine, so it is not its own alone. A name other than
// localhost is not looked up, since it may change.
func isOwn(addr string) bool {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	addr = strings.Trim(addr, "[]")
	return addr == "localhost" || net.ParseIP(addr).IsLoopback()
}

// secrets are the options for passwords and certificates, which serve and the commands that talk to a
// member share.
//
// The password and the admin password are contents of the files, and are read again while a member
// serves (reread). The certificates are names of files here: package tls has their contents.
type secrets struct {
	passwordFile, password string
	readFile, readPassword string
	adminFile, admin       string
	cert, key, ca          string
	membersCA              string
}

// passwordVariable has the password where a file is inconvenient.
const passwordVariable = "SHALED_PASSWORD"

// flags adds the options. A command that asks a member has fewer of them than serve, and the same
// names.
func (s *secrets) flags(cmd *cobra.Command, serves bool) {
	f := cmd.Flags()
	f.StringVar(&s.passwordFile, "password-file", "", "`FILE` whose first line is the password for clients and pages (for changes from another machine, of --admin-password-file); or set "+passwordVariable)
	if serves {
		f.StringVar(&s.readFile, "read-password-file", "", "`FILE` whose first line is another password for clients, with which they can only read")
		f.StringVar(&s.adminFile, "admin-password-file", "", "`FILE` whose first line is the password for changes of the group from other machines; from this one, that of --password-file does")
		f.StringVar(&s.cert, "tls-cert", "", "`FILE` with this member's certificate (PEM): clients, pages and members then talk TLS")
		f.StringVar(&s.key, "tls-key", "", "`FILE` with its key")
		f.StringVar(&s.ca, "tls-ca", "", "`FILE` with the authority that signs the certificates of members and clients")
		f.StringVar(&s.membersCA, "tls-members-ca", "", "`FILE` with the authority that signs those of members, and no client's; needed with --tls-clients")
		return
	}
	f.StringVar(&s.ca, "tls-ca", "", "talk TLS; `FILE` with the authority that signs the members' certificates")
	f.StringVar(&s.cert, "tls-cert", "", "`FILE` with a certificate, if the member wants one (--tls-clients)")
	f.StringVar(&s.key, "tls-key", "", "`FILE` with its key")
}

// read reads the password, and checks that the options belong together.
func (s *secrets) read(getenv func(string) string) error {
	s.password = getenv(passwordVariable)
	for option, of := range map[string]struct {
		file string
		text *string
	}{"password-file": {s.passwordFile, &s.password}, "read-password-file": {s.readFile, &s.readPassword}, "admin-password-file": {s.adminFile, &s.admin}} {
		if of.file == "" {
			continue
		}
		data, err := os.ReadFile(of.file)
		if err != nil {
			return fmt.Errorf("--%s: %w", option, err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		if *of.text = strings.TrimSuffix(line, "\r"); *of.text == "" {
			return fmt.Errorf("--%s %s: its first line is empty: write a password there", option, of.file)
		}
	}
	switch {
	case s.readPassword != "" && s.password == "":
		return errors.New("--read-password-file needs --password-file: without a password everybody can write")
	case s.readPassword != "" && s.readPassword == s.password:
		return errors.New("--read-password-file and --password-file have the same password: write another one")
	}
	if (s.cert == "") != (s.key == "") {
		return errors.New("--tls-cert and --tls-key belong together: give both")
	}
	return nil
}
