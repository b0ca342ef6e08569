package server

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// configGet is CONFIG GET of the settings that clients and exporters look for, in the terms of Redis.
//
// redis-benchmark asks for save and appendonly before it begins, and warns if there is no answer.
func (c *client) configGet(args [][]byte) {
	if !resp.Is(args[0], "GET") || len(args) < 2 {
		c.Error("ERR there is CONFIG GET only: the flags of the server are its settings")
		return
	}
	config := &c.s.config
	var found [][2]string
	for _, setting := range [][2]string{
		{"appendfsync", config.Fsync}, {"appendonly", "yes"}, {"databases", "1"}, {"lazyfree-lazy-user-del", "no"},
		{"maxclients", strconv.Itoa(config.MaxClients)}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.FormatInt(config.MaxCommand, 10)}, {"replica-read-only", "no"}, {"save", ""}, {"timeout", "0"},
	} {
		for _, pattern := range args[1:] {
			if resp.Matches([]byte(strings.ToLower(string(pattern))), []byte(setting[0])) {
				found = append(found, setting)
				break
			}
		}
	}
	c.Map(len(found))
	for _, setting := range found {
		c.BulkString(setting[0])
		c.BulkString(setting[1])
	}
}

// A Section is a part of the text that INFO returns: lines of name and value.
type Section struct {
	Name  string
	Lines [][2]string
}

// NewSection makes a section of names, each with its value behind it.
func NewSection(name string, lines ...any) Section {
	s := Section{Name: name}
	for ; len(lines) > 1; lines = lines[2:] {
		s.Lines = append(s.Lines, [2]string{fmt.Sprint(lines[0]), fmt.Sprint(lines[1])})
	}
	return s
}

// info is INFO, with the fields that exporters read. Names of sections that are not there are passed over, as in Redis.
func (c *client) info(args [][]byte) {
	counts := c.s.Counts()
	mode, _ := c.s.modeAndRole()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	up := time.Since(c.s.started)
	sections := append([]Section{
		NewSection("Server", "server_name", "shaled", "redis_version", redisVersion, "redis_mode", mode, "os", runtime.GOOS, "arch_bits", strconv.IntSize,
			"process_id", os.Getpid(), "go_version", runtime.Version(), "uptime_in_seconds", int(up.Seconds()), "uptime_in_days", int(up.Hours()/24)),
		NewSection("Clients", "connected_clients", counts.Clients, "maxclients", c.s.config.MaxClients, "blocked_clients", 0),
		NewSection("Memory", "used_memory", memory.HeapInuse, "used_memory_rss", memory.Sys-memory.HeapReleased, "maxmemory", 0, "maxmemory_policy", "noeviction",
			"clients_memory", c.s.config.MaxBuffers-c.s.budget.Left()),
		NewSection("Persistence", "loading", 0, "aof_enabled", 1),
		NewSection("Stats", "total_connections_received", counts.Accepted, "total_commands_processed", counts.All,
			"total_error_replies", counts.Errors),
	}, c.s.config.Info(func(section string) bool { return wanted(args, section) })...)
	if wanted(args, "Keyspace") {
		var k keyspace
		err := c.s.read(func(r shale.Reader) (err error) {
			k, err = c.size(r)
			return err
		})
		lines := []any{}
		if err == nil && k.names > 0 { // it is as if there were none while nothing can be read
			lines = []any{"db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", k.names, k.expiring)}
		}
		sections = append(sections, NewSection("Keyspace", lines...))
	}
	var text strings.Builder
	for _, section := range sections {
		if !wanted(args, section.Name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.Name)
		for _, line := range section.Lines {
			fmt.Fprintf(&text, "%s:%s\r\n", line[0], line[1])
		}
	}
	c.BulkString(text.String())
}

// wanted reports whether the arguments of INFO name a section.
func wanted(args [][]byte, section string) bool {
	for _, arg := range args {
		if resp.Is(arg, section) || resp.Is(arg, "all") || resp.Is(arg, "everything") || resp.Is(arg, "default") {
			return true
		}
	}
	return len(args) == 0
}
