package server

import (
	"runtime"
	"strconv"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// Commands about the connection and the server itself. They do not ask the group, and so are
// answered while it has no leader: a client that connects then can still find out where it is.

// nameFits reports whether a connection can have a name. It returns false after it has replied that it can't.
func (c *client) nameFits(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			c.Error("ERR Client names cannot contain spaces, newlines or special characters.")
			return false
		}
	}
	return true
}

// client is CLIENT, as far as clients use it when they connect.
func (c *client) client(args [][]byte) {
	if resp.Is(args[0], "SETNAME") && len(args) == 2 && !c.nameFits(args[1]) {
		return
	}
	c.Client(args)
}

// command is COMMAND.
func (c *client) command(args [][]byte) { commands.Command(&c.Session, args) }

// configGet is CONFIG GET of the settings that redis-benchmark shows: the log is synced before each reply.
//
// redis-benchmark asks for save and appendonly before it begins, and warns if there is no answer.
func (c *client) configGet(args [][]byte) {
	c.ConfigGet(args, [][2]string{
		{"appendfsync", "always"}, {"appendonly", "yes"}, {"maxclients", strconv.Itoa(c.s.config.MaxClients)}, {"save", ""},
	})
}

// info is INFO.
func (c *client) info(args [][]byte) {
	counts := c.s.Counts()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c.Info(args, append([]Section{
		resp.NewSection("Server", "server_name", "shaled", "redis_version", resp.RedisVersion, "redis_mode", "standalone",
			"go_version", runtime.Version(), "uptime_in_seconds", int(time.Since(c.s.started).Seconds())),
		resp.NewSection("Clients", "connected_clients", counts.Clients, "maxclients", c.s.config.MaxClients),
		resp.NewSection("Memory", "used_memory", memory.HeapInuse),
		resp.NewSection("Stats", "total_connections_received", counts.Accepted, "total_commands_processed", counts.All,
			"total_error_replies", counts.Errors),
	}, c.s.config.Info()...))
}
