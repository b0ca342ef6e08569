package program

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale/internal/testenv"
)

// Clients of any member write and read the same keys, whoever leads.
func TestGroup_AnyMember(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	for round := range 4 {
		for i, r := range group {
			client := dial(t, r.addr)
			key := fmt.Sprintf("%d:%d", round, i)
			mustNil(t, client.Set(ctx, key, round, 0).Err())
			for _, other := range group {
				if got, err := dial(t, other.addr).Get(ctx, key).Result(); err != nil || got != fmt.Sprint(round) {
					t.Fatalf("member %s gives %q, %v for what %s has written", other.config.ID, got, err, r.config.ID)
				}
			}
		}
		lead, _ := leader(t, group)
		must(t, "transfer", "--at", lead.http)
	}
	if text, err := dial(t, group[1].addr).Info(ctx, "group").Result(); err != nil || !strings.Contains(text, "member:b\r\n") || !strings.Contains(text, "voters:3\r\n") {
		t.Errorf("INFO group = %q, %v", text, err)
	}
}

// A value that expires is gone on every member, and the group takes the key for absent then.
func TestGroup_Expiry(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	mustNil(t, dial(t, group[0].addr).Set(ctx, "long", 1, 1000*time.Second).Err())
	mustNil(t, dial(t, group[1].addr).Do(ctx, "SETEX", "short", 1, "1").Err())
	for _, r := range group {
		client := dial(t, r.addr)
		if left, err := client.TTL(ctx, "long").Result(); err != nil || left > 1000*time.Second || left < 900*time.Second {
			t.Errorf("TTL on member %s: %v, %v", r.config.ID, left, err)
		}
		testenv.WaitFor(t, "the value is over", func() bool { return client.TTL(ctx, "short").Val() == -2 })
	}
	for i, want := range []bool{true, false} {
		if set, err := dial(t, group[2].addr).SetNX(ctx, "short", i, 1000*time.Second).Result(); set != want || err != nil {
			t.Errorf("SET NX EX %d of a key that is over: %v, %v", i, set, err)
		}
	}
}

// A SCAN goes on through changes of the leader, on every member.
func TestGroup_ScanThroughElections(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	client := dial(t, group[0].addr)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 500 {
			p.Set(ctx, fmt.Sprintf("key:%03d", i), i, 0)
		}
		return nil
	})
	mustNil(t, err)
	for _, r := range group {
		client := dial(t, r.addr)
		seen := make(map[string]int)
		cursor := uint64(0)
		for step := 0; ; step++ {
			keys, next, err := client.Scan(ctx, cursor, "key:*", 50).Result()
			mustNil(t, err)
			for _, key := range keys {
				seen[key]++
			}
			if cursor = next; cursor == 0 {
				break
			}
			if step%4 == 1 {
				lead, _ := leader(t, group)
				must(t, "transfer", "--at", lead.http)
			}
		}
		if len(seen) != 500 {
			t.Errorf("SCAN on member %s found %d keys of 500", r.config.ID, len(seen))
		}
	}
}

// A leader that is told to end hands over the lead first, so that a client of another member hardly waits. What was
// acknowledged is there when it comes back.
func TestGroup_LeaderEnds(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	lead, others := leader(t, group)
	client := dial(t, others[0].addr)
	mustNil(t, client.Set(ctx, "before", 1, 0).Err())
	listens := lead.node.Address()
	if status := lead.stop(); status != done {
		t.Fatalf("status %d: %s", status, lead.notes)
	}
	if !strings.Contains(lead.notes.String(), "handed over the lead") {
		t.Errorf("the leader has not handed over: %s", lead.notes)
	}
	begin := time.Now()
	mustNil(t, client.Set(ctx, "after", 1, 0).Err())
	t.Logf("the first write after the end of the leader took %v", time.Since(begin))
	again := start(t, lead.args[0], "--id", lead.config.ID, "--addr", "127.0.0.1:0", "--http", "none", "--listen", listens)
	for _, key := range []string{"before", "after"} {
		if n, err := dial(t, again.addr).Exists(ctx, key).Result(); err != nil || n != 1 {
			t.Errorf("%s on the member that came back: %d, %v", key, n, err)
		}
	}
	// The same directory can't make another group.
	_, notes, status := run(ctx, "serve", others[1].args[0], "--id", others[1].config.ID, "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none", "--bootstrap")
	if status != failed || !strings.Contains(notes, "open already") {
		t.Errorf("a second start of a member: %d, %s", status, notes)
	}
}

// Members are listed, leave, and come in by hand. A request that needs the leader finds it among the addresses.
func TestGroup_Members(t *testing.T) {
	t.Parallel()
	group := three(t)
	lead, others := leader(t, group)
	at := others[0].http + "," + others[1].http + "," + lead.http
	list := must(t, "members", "--at", others[0].http)
	if !strings.Contains(list, "leads") || len(strings.Split(strings.TrimSpace(list), "\n")) != 4 {
		t.Errorf("members:\n%s", list)
	}
	gone := others[1]
	_, notes, status := run(t.Context(), "leave", gone.config.ID, "--at", others[0].http)
	if status != failed || !strings.Contains(notes, `it is "`+lead.config.ID+`"`) || !strings.Contains(notes, "ask that one with --at") {
		t.Errorf("leave at a follower: %d, %s", status, notes)
	}
	if list := must(t, "leave", gone.config.ID, "--at", at); strings.Contains(list, gone.node.Address()) {
		t.Errorf("after leave:\n%s", list)
	}
	waitVoters(t, others[0], 2)
	testenv.WaitFor(t, "the member says that it was removed", func() bool { return strings.Contains(gone.notes.String(), "was removed from its group") })

	fresh := start(t, filepath.Join(t.TempDir(), "d"), "--id", "d", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	if ok, why := fresh.health(); ok || why != "no leader is known" {
		t.Errorf("the health of a member without a group: %v, %s", ok, why)
	}
	testenv.WaitFor(t, "the member says that it is in no group", func() bool {
		return strings.Contains(fresh.notes.String(), "not in a group yet: take it in with shaled join d "+fresh.node.Address())
	})
	if list := must(t, "join", "d", fresh.node.Address(), "--at", at, "--learner"); !strings.Contains(list, "no") {
		t.Errorf("after join as a learner:\n%s", list)
	}
	must(t, "join", "d", fresh.node.Address(), "--at", at)
	waitVoters(t, others[0], 3)
	if err := dial(t, fresh.addr).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	// What the leader refuses is said once, whoever else is asked.
	for _, args := range [][]string{{"leave", "nobody"}, {"transfer", "nobody"}, {"join", "e", fresh.node.Address()}} {
		_, notes, status := run(t.Context(), append(args, "--at", others[0].http+","+lead.http+","+fresh.http)...)
		if status != failed || strings.Contains(notes, "ask that one") || strings.Count(notes, "\n") != 1 {
			t.Errorf("%q: status %d, %q", args, status, notes)
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"members", "--at", "127.0.0.1:1"}, "connection refused"},
		{[]string{"members", "--at", "nowhere"}, "--at nowhere is not an address"},
		{[]string{"members", "more"}, "usage: shaled members"},
		{[]string{"join", "d"}, "usage: shaled join ID HOST:PORT"},
		{[]string{"join", "e", "127.0.0.1", "--at", at}, "127.0.0.1 is not an address"},
		{[]string{"join", "e", fresh.node.Address(), "--at", at}, `member "d" lives at`},
		{[]string{"leave", "nobody", "--at", lead.http}, "nobody"},
		{[]string{"leave"}, "usage: shaled leave ID"},
		{[]string{"what"}, `unknown command "what"`},
	} {
		_, notes, status := run(t.Context(), test.args...)
		if status != failed || !strings.Contains(notes, test.want) {
			t.Errorf("%q: status %d, %q; want %q", test.args, status, notes, test.want)
		}
	}
}

// Without a majority a member says so, keeps answering local reads, and nothing hangs for longer than --timeout.
func TestGroup_MinorityAnswers(t *testing.T) {
	t.Parallel()
	group := three(t, "--reads", "local", "--timeout", "5s")
	ctx := t.Context()
	mustNil(t, dial(t, group[0].addr).Set(ctx, "k", "v", 0).Err())
	testenv.WaitFor(t, "the write is on all members", func() bool {
		n, err := dial(t, group[2].addr).Exists(ctx, "k").Result()
		return err == nil && n == 1
	})
	group[0].stop()
	group[1].stop()
	testenv.WaitFor(t, "no leader is known", func() bool { ok, _ := group[2].health(); return !ok })
	client := dial(t, group[2].addr)
	begin := time.Now()
	err := client.Set(ctx, "k", "w", 0).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "CLUSTERDOWN ") && !strings.HasPrefix(err.Error(), "UNKNOWN ") {
		t.Errorf("a write without a majority: %v", err)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if got, err := client.Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Errorf("a local read = %q, %v", got, err)
	}
}

// The command members, and the page of any member, show how all of them are.
func TestGroup_Survey(t *testing.T) {
	t.Parallel()
	group := three(t, "--backup", filepath.Join(t.TempDir(), "bucket"))
	for _, r := range group {
		backedUp(t, r)
	}
	_, others := leader(t, group)
	list := must(t, "members", "--at", others[0].http)
	if strings.Count(list, "has all writes") != 3 || strings.Count(list, version()) != 3 || !strings.Contains(list, "disk free") {
		t.Errorf("members:\n%s", list)
	}
	others[1].stop()
	list = must(t, "members", "--at", others[0].http)
	if strings.Count(list, "has all writes") != 2 || strings.Count(list, "unreachable: ") != 1 {
		t.Errorf("members, when one is down:\n%s", list)
	}
	if _, page := get(t, "GET", "http://"+others[0].http+"/"); strings.Count(page, "unreachable: ") != 1 || !strings.Contains(page, "has all writes") {
		t.Errorf("the page does not show that one is down:\n%s", page)
	}
}

// With TLS, clients and members must know the authority, and nobody else gets in.
func TestGroup_TLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	password := filepath.Join(t.TempDir(), "password")
	mustNil(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	group := three(t, append(a.options(t, "member"), "--password-file", password)...)
	ctx := t.Context()
	friend := secrets{ca: a.file("ca.crt")}
	config, err := friend.caller()
	mustNil(t, err)
	for _, r := range group {
		client := dial(t, r.addr, func(o *redis.Options) { o.TLSConfig, o.Password = config, "secret" })
		if err := client.Set(ctx, "k", r.config.ID, 0).Err(); err != nil {
			t.Errorf("with TLS: %v", err)
		}
		for name, change := range map[string]func(o *redis.Options){
			"without TLS":          func(o *redis.Options) { o.Password = "secret" },
			"without the password": func(o *redis.Options) { o.TLSConfig = config },
			"a wrong password":     func(o *redis.Options) { o.TLSConfig, o.Password = config, "Secret" },
		} {
			short := func(o *redis.Options) { o.ReadTimeout, o.DialTimeout = 2*time.Second, 2*time.Second }
			if err := dial(t, r.addr, change, short).Get(ctx, "k").Err(); err == nil {
				t.Errorf("a client %s is answered", name)
			}
		}
	}
	if list := must(t, "members", "--at", group[0].http, "--tls-ca", a.file("ca.crt"), "--password-file", password); strings.Count(list, "yes") != 3 {
		t.Errorf("members:\n%s", list)
	}
	for want, args := range map[string][]string{
		"give --tls-ca":        {"members", "--at", group[0].http},
		"give --password-file": {"members", "--at", group[0].http, "--tls-ca", a.file("ca.crt")},
	} {
		if _, notes, status := run(ctx, args...); status != failed || !strings.Contains(notes, want) {
			t.Errorf("%q: status %d, %s", args, status, notes)
		}
	}

	// A stranger with a certificate of another authority, and one without any, don't get in.
	other := newAuthority(t)
	for name, options := range map[string][]string{"x": other.options(t, "stranger"), "y": nil} {
		r := start(t, append([]string{
			filepath.Join(t.TempDir(), name), "--id", name, "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none", "--join", group[0].node.Address(),
		}, options...)...)
		time.Sleep(time.Second) // it tries all the time
		if s := r.node.Stats(); s.Members != 0 || group[0].node.Stats().Members != 3 {
			t.Errorf("stranger %s is a member: %+v", name, s)
		}
	}
}

// With --tls-clients a client needs a certificate of its own.
func TestServe_TLSClients(t *testing.T) {
	t.Parallel()
	a, members := newAuthority(t), newAuthority(t)
	r := start(t, append(a.options(t, "member"), filepath.Join(t.TempDir(), "a"), "--id", "a", "--bootstrap", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--tls-clients", "--tls-members-ca", members.file("ca.crt"))...)
	a.options(t, "client")
	with := secrets{ca: a.file("ca.crt"), cert: a.file("client.crt"), key: a.file("client.key")}
	without := secrets{ca: a.file("ca.crt")}
	for want, s := range map[bool]secrets{true: with, false: without} {
		config, err := s.caller()
		mustNil(t, err)
		err = dial(t, r.addr, func(o *redis.Options) { o.TLSConfig, o.ReadTimeout = config, 5*time.Second }).Set(t.Context(), "k", "v", 0).Err()
		if (err == nil) != want {
			t.Errorf("a client with a certificate %v: %v", want, err)
		}
		args := []string{"members", "--at", r.http, "--tls-ca", s.ca}
		if s.cert != "" {
			args = append(args, "--tls-cert", s.cert, "--tls-key", s.key)
		}
		if _, notes, status := run(t.Context(), args...); (status == done) != want {
			t.Errorf("members with a certificate %v: %d, %s", want, status, notes)
		}
	}
}

// A client's certificate is no member's: its owner can neither join nor write at the address for members. New
// certificates and passwords count without another start.
func TestServe_MembersAuthority(t *testing.T) {
	t.Parallel()
	a, clients := newAuthority(t), newAuthority(t)
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		mustNil(t, os.WriteFile(password, []byte(text), 0o600))
	}
	write("first")
	options := a.options(t, "member")
	options[5] = clients.file("ca.crt")
	options = append(options, "--tls-clients", "--tls-members-ca", a.file("ca.crt"), "--password-file", password, "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none")
	r := start(t, append([]string{filepath.Join(t.TempDir(), "a"), "--id", "a", "--bootstrap"}, options...)...)
	clients.options(t, "client")
	thief := []string{filepath.Join(t.TempDir(), "x"), "--id", "x", "--tls-cert", clients.file("client.crt"), "--tls-key", clients.file("client.key"), "--tls-ca", a.file("ca.crt"), "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "none", "--join", r.node.Address()}
	x := start(t, thief...)
	time.Sleep(time.Second) // it tries all the time
	if x.node.Stats().Members != 0 || r.node.Stats().Members != 1 {
		t.Error("a client's certificate has made a member")
	}
	config, err := (&secrets{ca: a.file("ca.crt"), cert: clients.file("client.crt"), key: clients.file("client.key")}).caller()
	mustNil(t, err)
	if conn, err := tls.Dial("tcp", r.node.Address(), config); err == nil {
		_, _ = conn.Write(make([]byte, 100)) // it may be refused by now
		if n, err := conn.Read(make([]byte, 100)); n > 0 {
			t.Errorf("a client's certificate is answered at the address for members: %v", err)
		}
		conn.Close()
	}
	ask := func(password string) (serial string, err error) {
		config, cerr := (&secrets{ca: a.file("ca.crt"), cert: clients.file("client.crt"), key: clients.file("client.key")}).caller()
		if cerr != nil {
			t.Fatal(cerr)
		}
		config.VerifyConnection = func(c tls.ConnectionState) error {
			serial = c.PeerCertificates[0].SerialNumber.String()
			return nil
		}
		err = dial(t, r.addr, func(o *redis.Options) { o.TLSConfig, o.Password = config, password }).Ping(t.Context()).Err()
		return serial, err
	}
	before, err := ask("first")
	mustNil(t, err)
	a.sign(t, "member", &x509.Certificate{})
	write("second")
	testenv.WaitFor(t, "the new certificate and password count", func() bool {
		serial, err := ask("second")
		return err == nil && serial != before
	})
	if _, err := ask("first"); err == nil {
		t.Error("the old password still counts")
	}
}

// A port that is taken is an error that says what to do.
func TestServe_PortTaken(t *testing.T) {
	t.Parallel()
	r := start(t, filepath.Join(t.TempDir(), "a"), "--id", "a", "--bootstrap", "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	free := []string{"--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	for i, taken := range []string{r.addr, r.node.Address(), r.http} {
		args := append([]string{"serve", filepath.Join(t.TempDir(), "b"), "--id", "b"}, free...)
		args[5+2*i] = taken
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, notes, status := run(ctx, args...)
		cancel()
		if status != failed || !strings.Contains(notes, "Another program listens there") {
			t.Errorf("%s %s: %d, %s", args[4+2*i], taken, status, notes)
		}
	}
}

// The member that leads has just stopped, and the others do not know it yet: a request waits until one of them leads.
func TestGroup_LeaderJustStopped(t *testing.T) {
	t.Parallel()
	asked := 0
	follower := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 4 {
			serveJSON(w, http.StatusMisdirectedRequest, errorJSON{"not the leader", "c"})
			return
		}
		serveJSON(w, http.StatusOK, []memberJSON{{ID: "a", Address: "here:1", Leader: true}})
	}))
	defer follower.Close()
	at := strings.TrimPrefix(follower.URL, "http://")
	if list := must(t, "leave", "c", "--at", at+",127.0.0.1:1"); !strings.Contains(list, "leads") || asked != 4 {
		t.Errorf("asked %d times:\n%s", asked, list)
	}
	asked = 0
	if _, notes, status := run(t.Context(), "leave", "c", "--at", at); status != failed || asked != 1 {
		t.Errorf("with one address: status %d, asked %d times: %s", status, asked, notes)
	}
}
