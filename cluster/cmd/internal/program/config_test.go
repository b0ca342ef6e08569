package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
)

// Options that make no sense are refused before anything is made, with the option and the next step in the error.
func TestServe_BadOptions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a")
	empty := filepath.Join(t.TempDir(), "empty")
	mustNil(t, os.WriteFile(empty, []byte("\nsecret\n"), 0o600))
	word := filepath.Join(t.TempDir(), "word")
	mustNil(t, os.WriteFile(word, []byte("secret\n"), 0o600))
	a := newAuthority(t)
	own := a.options(t, "own")
	for _, test := range []struct{ args, want string }{
		{"", "usage: shaled serve DIR"},
		{"DIR --bootstrap", "--bootstrap is for a member of a group: name the member"},
		{"DIR --join 127.0.0.1:7380", "--join is for a member of a group"},
		{"DIR --sync often", "--sync often: write always, everysec or no"},
		{"DIR --id a --sync no", "--sync no is for a server alone"},
		{"DIR more --id a", "usage: shaled serve DIR"},
		{"DIR --id a/b --bootstrap", "it takes 1 to 64 letters"},
		{"DIR --id a --bootstrap --learner", "--learner: the first member"},
		{"DIR --id a --join 127.0.0.1", "--join 127.0.0.1 is not an address"},
		{"DIR --id a --addr 6380", "--addr 6380 is not an address: write HOST:PORT"},
		{"DIR --id a --addr 127.0.0.1:x", "--addr 127.0.0.1:x is not an address"},
		{"DIR --id a --http 127.0.0.1:99999", "--http 127.0.0.1:99999 is not an address"},
		{"DIR --id a --reads fast", "--reads fast: write linear or local"},
		{"DIR --id a --timeout 0s", "--timeout 0s"},
		{"DIR --id a --max-command 1", "--max-command 1"},
		{"DIR --id a --max-clients 0", "--max-clients 0"},
		{"DIR --id a --heartbeat 1ms", "--heartbeat 1ms is too short"},
		{"DIR --id a --raft-log loud", "--raft-log loud: write off"},
		{"DIR --id a --clients b=1", "--clients b=1 is not an address"},
		{"DIR --id a --what", "unknown flag: --what"},
		{"DIR --id a --password-file /no/such", "--password-file: open /no/such"},
		{"DIR --id a --password-file " + empty, "its first line is empty"},
		{"DIR --read-password-file " + word, "--read-password-file needs --password-file"},
		{"DIR --password-file " + word + " --read-password-file " + word, "have the same password: write another one"},
		{"DIR --max-buffers 1000000", "--max-buffers 1000000: write at least four times --max-command"},
		{"DIR --id a --tls-cert x", "--tls-cert and --tls-key belong together"},
		{"DIR --id a --tls-ca x", "--tls-ca needs --tls-cert"},
		{"DIR --id a --tls-cert x --tls-key y", "--tls-cert needs --tls-ca"},
		{"DIR --id a --tls-cert x --tls-key y --tls-ca z", "--tls-cert x, --tls-key y: open x"},
		{"DIR --id a --tls-ca " + empty + " " + strings.Join(own[:4], " "), "there is no certificate in it"},
		{"DIR --id a --tls-clients", "--tls-clients needs --tls-ca"},
		{"DIR --id a --addr :6380", "--addr :6380: other machines can reach it, and could read and write everything"},
		{"DIR --id a --addr 10.0.0.1:6380", "--unprotected if only friends can reach it"},
		{"DIR --id a --listen 0.0.0.0:7380", "--listen 0.0.0.0:7380: other machines can reach it, and could become members"},
		{"DIR --id a --http :8380", "--http :8380: other machines can reach it"},
	} {
		args := append([]string{"serve"}, strings.Fields(strings.Replace(test.args, "DIR", dir, 1))...)
		_, notes, status := run(t.Context(), args...)
		if status != failed || !strings.Contains(notes, test.want) {
			t.Errorf("%s: status %d, %q; want %q", test.args, status, notes, test.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "log")); err == nil {
			t.Fatalf("%s has made a member", test.args)
		}
	}
}

// A password lets a member listen where others reach it, but not without a warning when there is no TLS.
func TestServe_Reach(t *testing.T) {
	t.Parallel()
	with := func(change func(*config)) *config {
		c := &config{Options: cluster.Options{ID: "a", Listen: "127.0.0.1:1"}, Config: server.Config{Timeout: 1, MaxCommand: 1 << 20, MaxBuffers: 4 << 20, MaxClients: 1},
			addr: "0.0.0.0:1", http: "127.0.0.1:1", reads: readsLinear, sync: syncAlways, heartbeat: 1e9, raftLog: "off"}
		change(c)
		return c
	}
	for _, test := range []struct {
		name    string
		c       *config
		allowed bool
		warns   string
	}{
		{"nothing", with(func(*config) {}), false, ""},
		{"a password", with(func(c *config) { c.secrets.password = "x" }), true, "has no TLS"},
		{"certificates of clients", with(func(c *config) { c.secrets.cert, c.secrets.ca, c.secrets.membersCA, c.tlsClients = "x", "y", "z", true }), true, ""},
		{"TLS alone", with(func(c *config) { c.secrets.cert, c.secrets.ca = "x", "y" }), false, ""},
		{"TLS and a password", with(func(c *config) { c.secrets.cert, c.secrets.ca, c.secrets.password = "x", "y", "z" }), true, ""},
		{"its own risk", with(func(c *config) { c.unprotected = true }), true, "whoever can reach"},
		{"loopback", with(func(c *config) { c.addr = "localhost:1" }), true, ""},
		{"IPv6 loopback", with(func(c *config) { c.addr = "[::1]:1" }), true, ""},
		{"members", with(func(c *config) { c.addr, c.Listen, c.secrets.password = "127.0.0.1:1", "10.0.0.1:1", "x" }), false, ""},
		{"local reads", with(func(c *config) { c.addr, c.reads = "127.0.0.1:1", readsLocal }), true, "--reads local"},
	} {
		if err := test.c.check(); (err == nil) != test.allowed {
			t.Errorf("%s: %v", test.name, err)
		}
		warnings := strings.Join(test.c.warnings(), "\n")
		if test.allowed && (!strings.Contains(warnings, test.warns) || test.warns == "" && warnings != "") {
			t.Errorf("%s warns of %q", test.name, warnings)
		}
	}
}
