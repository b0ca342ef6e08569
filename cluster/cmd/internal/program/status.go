package program

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
)

// version returns what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// info returns the sections of INFO that only the program knows.
//
// INFO is read by tools for Redis, such as dashboards. They look for role and for connected
// clients; the sections Group and Store are for people.
//
// Replication costs a question to each member, so it is made only if it is wanted.
func (m *member) info(wanted func(section string) bool) (sections []server.Section) {
	if wanted("Replication") {
		sections = append(sections, m.replication())
	}
	sections = append(sections, server.NewSection("Cluster", "cluster_enabled", oneIf(m.node != nil)))
	if m.node != nil {
		s := m.node.Stats()
		sections = append(sections, server.NewSection("Group", "member", m.config.ID, "state", strings.ToLower(s.State), "leader", s.Leader, "term", s.Term,
			"members", s.Members, "voters", s.Voters, "last_index", s.Last, "commit_index", s.Commit, "applied_index", s.Applied, "reads", m.config.reads))
	}
	_ = m.view(func(db *shale.DB) error { // a member that has stopped has no such section
		x := db.Metrics()
		sections = append(sections, server.NewSection("Store", "memtable_bytes", x.MemtableMemory, "cache_bytes", x.CacheMemory,
			"filter_bytes", x.FilterMemory, "flushes", x.Flushes, "compactions", x.Compactions, "filter_negatives", x.FilterNegative,
			"block_reads", x.BlockReads))
		return nil
	})
	return sections
}

// replication returns the section from which clients and exporters learn whether this member leads, and where the others are.
func (m *member) replication() server.Section {
	if m.node == nil {
		return server.NewSection("Replication", "role", "master", "connected_slaves", 0)
	}
	var master, slaves []any
	offset := uint64(0)
	leads, link := m.node.IsLeader(), "down"
	for _, one := range m.clientMembers(context.Background()) {
		host, port, _ := net.SplitHostPort(one.Addr)
		switch {
		case one.Self:
			offset = one.Applied
		case leads:
			slaves = append(slaves, fmt.Sprint("slave", len(slaves)/2), fmt.Sprintf("ip=%s,port=%s,state=online,offset=%d", host, port, one.Applied))
		case one.Leader:
			master, link = []any{"master_host", host, "master_port", port}, "up"
		}
	}
	lines := append(append([]any{"role", "slave"}, master...), "master_link_status", link, "slave_read_only", 0, "slave_repl_offset", offset)
	if leads {
		lines = append([]any{"role", "master", "connected_slaves", len(slaves) / 2}, slaves...)
	}
	return server.NewSection("Replication", append(lines, "master_repl_offset", offset)...)
}

// health says whether the member can serve, and why not.
func (m *member) health() (ok bool, why string) {
	if m.node == nil {
		if err := m.db.Err(); err != nil {
			return false, message(err)
		}
		return true, ""
	}
	if err := m.node.Err(); err != nil {
		return false, message(err)
	}
	if _, known := m.node.Leader(); !known {
		return false, "no leader is known"
	}
	return true, ""
}

// metrics returns the metrics of the group and of the server for clients in Prometheus' text format. The store has
// its own.
func (m *member) metrics() string {
	var p strings.Builder
	// Each metric has two lines of comment, which say what it is, and a line for each value:
	//
	//	# HELP shaled_leads 1 if this member leads the group as far as it knows.
	//	# TYPE shaled_leads gauge
	//	shaled_leads 1
	head := func(name, kind, help string) { fmt.Fprintf(&p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	value := func(name, labels string, v float64) {
		fmt.Fprintf(&p, "%s%s %s\n", name, labels, strconv.FormatFloat(v, 'g', -1, 64))
	}
	one := func(name, kind, help string, v float64) {
		head(name, kind, help)
		value(name, "", v)
	}
	if m.node != nil {
		m.groupMetrics(one)
	}
	c := m.server.Counts()
	one("shaled_connections", "gauge", "Connections of clients.", float64(c.Clients))
	one("shaled_connections_total", "counter", "Connections of clients so far.", float64(c.Accepted))
	one("shaled_error_replies_total", "counter", "Replies to clients that were errors.", float64(c.Errors))
	one("shaled_wrong_passwords_total", "counter", "Wrong passwords of clients.", float64(c.WrongPasswords))
	head("shaled_commands_total", "counter", "Commands done, by name.")
	for _, name := range slices.Sorted(maps.Keys(c.Commands)) {
		value("shaled_commands_total", fmt.Sprintf(`{command="%s"}`, strings.ToLower(name)), float64(c.Commands[name]))
	}
	head("shaled_group_calls_total", "counter", "Calls to the group: a command, or a run of commands in a pipeline that went together.")
	value("shaled_group_calls_total", `{kind="read"}`, float64(c.Reads.N))
	value("shaled_group_calls_total", `{kind="write"}`, float64(c.Writes.N))
	head("shaled_group_call_seconds_total", "counter", "Time that these took.")
	value("shaled_group_call_seconds_total", `{kind="read"}`, c.Reads.Time.Seconds())
	value("shaled_group_call_seconds_total", `{kind="write"}`, c.Writes.Time.Seconds())
	m.backupMetrics(one)
	one("shaled_uptime_seconds", "gauge", "Time since the start.", time.Since(m.started).Seconds())
	head("shaled_build_info", "gauge", "The version as a label.")
	value("shaled_build_info", fmt.Sprintf(`{version="%s"}`, version()), 1)
	return p.String()
}

// groupMetrics are the metrics of a member.
func (m *member) groupMetrics(one func(name, kind, help string, v float64)) {
	s := m.node.Stats()
	_, hasLeader := m.node.Leader()
	one("shaled_leads", "gauge", "1 if this member leads the group as far as it knows.", oneIf(m.node.IsLeader()))
	one("shaled_has_leader", "gauge", "1 if this member knows a leader.", oneIf(hasLeader))
	one("shaled_failed", "gauge", "1 if an error of the disk, or of raft, has stopped this member.", oneIf(m.node.Err() != nil))
	one("shaled_differing_members", "gauge", "Members whose state is not this leader's. Look at their logs, and at this one's.", float64(len(s.Differing)))
	one("shaled_members", "gauge", "Members of the group.", float64(s.Members))
	one("shaled_voters", "gauge", "Members with a vote.", float64(s.Voters))
	one("shaled_term", "counter", "Term of the group: how often a leader was elected, or tried to be.", float64(s.Term))
	one("shaled_log_last_index", "counter", "Index of the last entry in this member's log.", float64(s.Last))
	one("shaled_commit_index", "counter", "Index up to which this member knows that entries are committed.", float64(s.Commit))
	one("shaled_applied_index", "counter", "Index up to which this member's state has all commands.", float64(s.Applied))
	if !s.Contact.IsZero() {
		one("shaled_leader_contact_seconds", "gauge", "Time since this member heard of a leader.", time.Since(s.Contact).Seconds())
	}
}

// oneIf returns 1 for true, which is how Prometheus has truth.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
