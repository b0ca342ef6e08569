package resptest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// StringProgram returns random commands on strings, whose lengths and offsets lie around those where a server may change how
// it keeps them: short ones, 4 KiB, pieces of 512 bytes, and zeros that nobody has written. They use few keys, and begin with
// FLUSHALL.
func StringProgram(r *rand.Rand, n int) (program [][]string) {
	commands := stringCommands(r)
	program = append(program, []string{"FLUSHALL"})
	for range n {
		command := commands[r.IntN(len(commands))]()
		if command[1] == "" {
			command[1] = string(rune('a' + r.IntN(3)))
		}
		program = append(program, command)
	}
	return program
}

// stringCommands returns what makes a command, each a kind of it. The name that a command is about is left empty.
func stringCommands(r *rand.Rand) []func() []string {
	borders := []int{0, 1, 7, 511, 512, 513, 1024, 4094, 4095, 4096, 4097, 4608, 10_000, 70_000}
	offset := func() int { return max(0, borders[r.IntN(len(borders))]+r.IntN(5)-2) }
	number := func() string {
		n := offset()
		if r.IntN(4) == 0 {
			n = -n
		}
		return strconv.Itoa(n)
	}
	value := func() string {
		switch n := offset(); r.IntN(4) {
		case 0:
			return strings.Repeat("\x00", n)
		case 1:
			return strings.Repeat("\xff", n)
		case 2:
			return strconv.Itoa(n)
		default:
			return strings.Repeat(fmt.Sprint(r.IntN(1000)), n/3+1)
		}
	}
	short := func() string { return strconv.Itoa(r.IntN(100)) }
	units := []string{"BYTE", "BIT", "bit", "WHAT"}
	return []func() []string{
		func() []string { return []string{"SET", "", value()} },
		func() []string {
			return []string{"SET", "", value(), []string{"NX", "XX", "GET", "KEEPTTL"}[r.IntN(4)]}
		},
		func() []string { return []string{"SET", "", value(), "PXAT", "4102444800123"} },
		func() []string { return []string{"APPEND", "", value()} },
		func() []string { return []string{"APPEND", "", short()} },
		func() []string { return []string{"SETRANGE", "", number(), value()} },
		func() []string { return []string{"SETRANGE", "", number(), short()} },
		func() []string {
			return []string{"SETBIT", "", strconv.Itoa(8*offset() + r.IntN(8)), strconv.Itoa(r.IntN(2))}
		},
		func() []string { return []string{"SETBIT", "", strconv.Itoa(8*offset() + r.IntN(8)), "1"} },
		func() []string { return []string{"SETBIT", "", number(), short()} },
		func() []string { return []string{"GETBIT", "", strconv.Itoa(8*offset() + r.IntN(8))} },
		func() []string { return []string{"BITCOUNT", ""} },
		func() []string { return []string{"BITCOUNT", "", number(), number()} },
		func() []string { return []string{"BITCOUNT", "", number(), number(), units[r.IntN(len(units))]} },
		func() []string { return []string{"BITCOUNT", "", number()} },
		func() []string { return []string{"BITPOS", "", strconv.Itoa(r.IntN(2))} },
		func() []string { return []string{"BITPOS", "", strconv.Itoa(r.IntN(2)), number()} },
		func() []string { return []string{"BITPOS", "", strconv.Itoa(r.IntN(2)), number(), number()} },
		func() []string {
			return []string{"BITPOS", "", strconv.Itoa(r.IntN(3)), number(), number(), units[r.IntN(len(units))]}
		},
		func() []string { return []string{"GETRANGE", "", number(), number()} },
		func() []string { return []string{"SUBSTR", "", number(), number()} },
		func() []string { return []string{"STRLEN", ""} },
		func() []string { return []string{"GET", ""} },
		func() []string { return []string{"MGET", "a", "b", "c", "none", "a"} },
		func() []string { return []string{"EXISTS", "a", "b", "c"} },
		func() []string { return []string{"TYPE", ""} },
		func() []string { return []string{"INCR", ""} },
		func() []string { return []string{"GETSET", "", value()} },
		func() []string { return []string{"GETDEL", ""} },
		func() []string { return []string{"GETEX", "", "PERSIST"} },
		func() []string { return []string{"GETEX", "", "EXAT", "4102444800"} },
		func() []string { return []string{"PEXPIREAT", "", "4102444800321"} },
		func() []string { return []string{"PEXPIRETIME", ""} },
		func() []string { return []string{"PERSIST", ""} },
		func() []string { return []string{"DEL", ""} },
		func() []string { return []string{"MSETNX", "", value(), "c", short()} },
	}
}
