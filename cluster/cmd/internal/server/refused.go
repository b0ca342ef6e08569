package server

import (
	"fmt"
	"strings"
)

// elsewhere are commands of Redis that shaled refuses by name, by what they are for.
var elsewhere = map[string]string{
	"hashes": "HDEL HEXISTS HEXPIRE HGET HGETALL HGETDEL HGETEX HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HPERSIST HPEXPIRE HPTTL HRANDFIELD HSCAN HSET HSETEX HSETNX HSTRLEN HTTL HVALS",
	"lists":  "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LMPOP LPOP LPOS LPUSH LPUSHX LRANGE LREM LSET LTRIM RPOP RPOPLPUSH RPUSH RPUSHX",
	"sets":   "SADD SCARD SDIFF SDIFFSTORE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS SMISMEMBER SMOVE SPOP SRANDMEMBER SREM SSCAN SUNION SUNIONSTORE",
	"sorted sets": "BZMPOP BZPOPMAX BZPOPMIN ZADD ZCARD ZCOUNT ZDIFF ZDIFFSTORE ZINCRBY ZINTER ZINTERCARD ZINTERSTORE ZLEXCOUNT ZMPOP ZMSCORE ZPOPMAX ZPOPMIN ZRANDMEMBER ZRANGE " +
		"ZRANGEBYLEX ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION " +
		"ZUNIONSTORE GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEOSEARCH GEOSEARCHSTORE",
	"streams":    "XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE XREAD XREADGROUP XREVRANGE XTRIM",
	"scripts":    "EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO FUNCTION SCRIPT",
	"publishing": "PSUBSCRIBE PUBLISH PUBSUB PUNSUBSCRIBE SPUBLISH SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE",
}

// whatFor has for the name of each command of elsewhere what it is for.
var whatFor = make(map[string]string)

func init() {
	for what, names := range elsewhere {
		for name := range strings.FieldsSeq(names) {
			whatFor[name] = what
		}
	}
}

// unknownCommand returns the error for a command that is in no table. Like that of Redis it begins with "ERR unknown command",
// which clients look for.
func unknownCommand(args [][]byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", printable(args[0]))
	for _, arg := range args[1:] {
		if text.Len() > 256 {
			break
		}
		fmt.Fprintf(&text, "'%s' ", printable(arg))
	}
	if what := whatFor[strings.ToUpper(string(args[0]))]; what != "" {
		return fmt.Sprintf("ERR unknown command '%s': shaled is for strings, counters, bits, Bloom filters and transactions, and has no %s; use Redis or Kvrocks for these", printable(args[0]), what)
	}
	return text.String()
}
