package main

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/internal/resp"
)

// Limits of RedisBloom, but for the last.
const (
	mostCapacity  = 1 << 30
	mostExpansion = 32768
	// mostLinks is a limit of this server. Every question asks each link.
	mostLinks = 1000
)

// bfReserve is BF.RESERVE name error capacity [EXPANSION n] [NONSCALING].
func (c *client) bfReserve(args [][]byte) {
	if len(args) > 6 {
		c.WrongArity("bf.reserve")
		return
	}
	o, err := reserveOptions(args[1:])
	if err == nil {
		c.wrote = true
		err = c.s.reserve(args[0], o)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.OK()
}

func reserveOptions(args [][]byte) (o redisbloom.Options, err error) {
	rate, isNumber := parseFloat(args[0])
	switch {
	case !isNumber:
		return o, replyError("ERR bad error rate")
	case !(rate > 0 && rate < 1):
		return o, replyError(fmt.Sprintf("ERR error rate must be in the range (%f, %f)", 0.0, 1.0))
	}
	capacity, isInt := resp.ParseInt(args[1])
	switch {
	case !isInt:
		return o, replyError("ERR bad capacity")
	case capacity < 1 || capacity > mostCapacity:
		return o, replyError(fmt.Sprintf("ERR capacity must be in the range [1, %d]", mostCapacity))
	}
	o = redisbloom.Options{ErrorRate: rate, Capacity: uint64(capacity)}
	for args = args[2:]; len(args) > 0; args = args[1:] {
		switch {
		case resp.Is(args[0], "NONSCALING"):
			o.NonScaling = true
			continue
		case !resp.Is(args[0], "EXPANSION"):
			return o, errUnknownArgument
		case len(args) == 1:
			return o, replyError("ERR no expansion")
		}
		args = args[1:]
		expansion, isInt := resp.ParseInt(args[0])
		switch {
		case !isInt:
			return o, replyError("ERR bad expansion")
		case expansion < 0 || expansion > mostExpansion:
			return o, replyError(fmt.Sprintf("ERR expansion must be in the range [0, %d]", mostExpansion))
		case expansion == 0:
			o.NonScaling = true
		}
		o.Expansion = uint32(expansion)
	}
	if o.NonScaling && o.Expansion > 0 {
		return o, replyError("Nonscaling filters cannot expand")
	}
	return o, nil
}

const errUnknownArgument = replyError("Unknown argument received")

// byDefault are the options of a filter that BF.ADD makes.
var byDefault = redisbloom.Options{
	Capacity: redisbloom.DefaultCapacity, ErrorRate: redisbloom.DefaultErrorRate, Expansion: redisbloom.DefaultExpansion,
}

// bfAdd is BF.ADD name item.
func (c *client) bfAdd(args [][]byte) {
	added, itemErr, err := c.insert(args[0], args[1:], &byDefault)
	switch {
	case err != nil:
		c.fail(err)
	case itemErr != nil:
		c.fail(itemErr)
	default:
		c.Truth(added[0])
	}
}

// bfMAdd is BF.MADD name item [item ...].
func (c *client) bfMAdd(args [][]byte) { c.insertMany(args[0], args[1:], &byDefault) }

// bfInsert is BF.INSERT name [CAPACITY n] [ERROR rate] [EXPANSION n] [NOCREATE] [NONSCALING]
// ITEMS item [item ...].
func (c *client) bfInsert(args [][]byte) {
	o, noCreate, items, err := insertOptions(args[1:])
	switch {
	case err != nil:
		c.fail(err)
	case noCreate:
		c.insertMany(args[0], items, nil)
	default:
		c.insertMany(args[0], items, &o)
	}
}

func insertOptions(args [][]byte) (o redisbloom.Options, noCreate bool, items [][]byte, err error) {
	o = byDefault
	fail := func(err error) (redisbloom.Options, bool, [][]byte, error) { return o, false, nil, err }
	for len(args) > 1 {
		word, value := args[0], args[1]
		switch {
		case resp.Is(word, "ITEMS"):
			return o, noCreate, args[1:], nil
		case resp.Is(word, "NOCREATE"):
			noCreate = true
			args = args[1:]
			continue
		case resp.Is(word, "NONSCALING"):
			o.NonScaling = true
			args = args[1:]
			continue
		case resp.Is(word, "ERROR"):
			rate, ok := parseFloat(value)
			if !ok || !(rate > 0 && rate < 1) {
				return fail(replyError("Bad error rate"))
			}
			o.ErrorRate = rate
		case resp.Is(word, "EXPANSION"):
			n, ok := resp.ParseInt(value)
			if !ok || n < 0 || n > mostExpansion {
				return fail(replyError("Bad expansion"))
			}
			o.NonScaling = o.NonScaling || n == 0
			o.Expansion = uint32(n)
		case resp.Is(word, "CAPACITY"):
			n, ok := resp.ParseInt(value)
			if !ok || n < 1 || n > mostCapacity {
				return fail(replyError("Bad capacity"))
			}
			o.Capacity = uint64(n)
		default:
			return fail(errUnknownArgument)
		}
		args = args[2:]
	}
	return fail(replyError(resp.ArityText("bf.insert"))) // there are no items
}

// insert adds items to a filter, and makes it by o if there is none and o is not nil.
func (c *client) insert(name []byte, items [][]byte, o *redisbloom.Options) (added []bool, itemErr, err error) {
	c.wrote = true // also if nothing is new: then another client has added it
	f, err := c.s.change(name, o)
	if err != nil {
		return nil, nil, err
	}
	defer f.changing.Unlock()
	return c.s.insert(f, items)
}

// insertMany replies with an array. Like that of Redis, it ends in the error if there is one.
func (c *client) insertMany(name []byte, items [][]byte, o *redisbloom.Options) {
	added, itemErr, err := c.insert(name, items, o)
	if err != nil {
		c.fail(err)
		return
	}
	n := len(added)
	if itemErr != nil {
		n++
	}
	c.Array(n)
	for _, isNew := range added {
		c.Truth(isNew)
	}
	if itemErr != nil {
		c.fail(itemErr)
	}
}

// bfExists is BF.EXISTS name item.
func (c *client) bfExists(args [][]byte) {
	if c.ask(args[0], args[1:]) {
		c.Truth(c.answers[0])
	}
}

// bfMExists is BF.MEXISTS name item [item ...].
func (c *client) bfMExists(args [][]byte) {
	if c.ask(args[0], args[1:]) {
		c.Array(len(c.answers))
		for _, answer := range c.answers {
			c.Truth(answer)
		}
	}
}

// ask sets answers to whether each item may be in the filter. Where there is no filter,
// nothing is in it, as in RedisBloom, also if there is a string. If it returns false, it has
// replied.
func (c *client) ask(name []byte, items [][]byte) bool {
	c.answers = append(c.answers[:0], make([]bool, len(items))...)
	f, err := c.s.find(name)
	if errors.Is(err, errNotFound) || errors.Is(err, errWrongType) {
		return true
	}
	if err == nil {
		err = f.view(func(bf *redisbloom.Filter) {
			for i, item := range items {
				c.answers[i] = bf.MayContain(item)
			}
		})
	}
	if err != nil {
		c.fail(err)
	}
	return err == nil
}

// bfCard is BF.CARD name.
func (c *client) bfCard(args [][]byte) {
	f, err := c.s.find(args[0])
	if errors.Is(err, errNotFound) {
		c.Integer(0)
		return
	}
	if err == nil {
		err = f.view(func(bf *redisbloom.Filter) { c.Integer(int64(bf.Count())) })
	}
	if err != nil {
		c.fail(err)
	}
}

// fields are what BF.INFO shows: the option, the name in the reply, and the value, which is
// below 0 if there is none.
var fields = []struct {
	option, name string
	value        func(redisbloom.Info) int64
}{
	{"CAPACITY", "Capacity", func(i redisbloom.Info) int64 { return int64(i.Capacity) }},
	{"SIZE", "Size", func(i redisbloom.Info) int64 { return int64(i.Size) }},
	{"FILTERS", "Number of filters", func(i redisbloom.Info) int64 { return int64(i.Filters) }},
	{"ITEMS", "Number of items inserted", func(i redisbloom.Info) int64 { return int64(i.Items) }},
	{"EXPANSION", "Expansion rate", func(i redisbloom.Info) int64 {
		if i.Expansion == 0 {
			return -1
		}
		return int64(i.Expansion)
	}},
}

// bfInfo is BF.INFO name [field].
func (c *client) bfInfo(args [][]byte) {
	if len(args) > 2 {
		c.WrongArity("bf.info")
		return
	}
	f, err := c.s.find(args[0])
	var info redisbloom.Info
	if err == nil {
		err = f.view(func(bf *redisbloom.Filter) { info = bf.Info() })
	}
	if err != nil {
		c.fail(err)
		return
	}
	if len(args) == 1 {
		c.Array(2 * len(fields))
		for _, field := range fields {
			c.Simple(field.name)
			c.infoValue(field.value(info))
		}
		return
	}
	for _, field := range fields {
		if resp.Is(args[1], field.option) {
			c.Array(1)
			c.infoValue(field.value(info))
			return
		}
	}
	c.fail(replyError("Invalid information value"))
}

func (c *client) infoValue(n int64) {
	if n < 0 {
		c.Null()
	} else {
		c.Integer(n)
	}
}

// bfScanDump is BF.SCANDUMP name iterator. It answers with the next iterator, which is 0
// after the end, and a chunk.
func (c *client) bfScanDump(args [][]byte) {
	f, err := c.s.find(args[0])
	if err != nil {
		c.fail(err)
		return
	}
	at, ok := resp.ParseInt(args[1])
	if !ok {
		c.fail(replyError("Second argument must be numeric"))
		return
	}
	err = f.view(func(bf *redisbloom.Filter) {
		next, chunk := bf.ScanDump(at)
		c.Array(2)
		c.Integer(next)
		c.Bulk(chunk)
	})
	if err != nil {
		c.fail(err)
	}
}

// bfLoadChunk is BF.LOADCHUNK name iterator chunk. Each chunk is in the store when it is
// acknowledged. The filter answers once the last one is there.
func (c *client) bfLoadChunk(args [][]byte) {
	at, ok := resp.ParseInt(args[1])
	if !ok {
		c.Error("ERR Second argument must be numeric")
		return
	}
	c.wrote = true
	err := error(errNotFound)
	if at == 1 {
		err = c.s.beginLoading(args[0], args[2])
	}
	if errors.Is(err, errNotFound) || errors.Is(err, errExists) {
		err = c.s.continueLoading(args[0], at, args[2])
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.OK()
}

// beginLoading makes a filter from the header of a dump, without its bits. It returns
// errExists if there is a filter.
func (s *server) beginLoading(name, header []byte) error {
	h := s.stripes.lock(name)
	defer s.stripes.unlock(h)
	if s.filters.get(name) != nil {
		return errExists
	}
	if err := s.missing(name); !errors.Is(err, errNotFound) {
		return err
	}
	l, b := new(redisbloom.Loader), new(shale.Batch)
	shape, ok := shapeOf(header)
	if !ok || len(shape.links) > mostLinks || l.LoadChunk(1, header) != nil {
		return errBadData
	}
	if shape.bytes > uint64(s.config.maxFilter) {
		return errTooLarge
	}
	f := &filter{id: s.filters.newID(), name: string(name), loading: l}
	err := errors.Join(
		b.Put(appendNameKey(nil, name), idKey(filterValue, f.id)),
		b.Put(idKey(filterMeta, f.id), record{loading: true, name: f.name}.encode()),
		b.Put(idKey(loadSpace, f.id, 1), header))
	if err == nil {
		err = s.write(b)
	}
	if err != nil {
		return err
	}
	s.filters.put(f)
	return nil
}

// continueLoading takes a chunk of bits. After the last one the filter is saved as a dump of
// the server's own.
func (s *server) continueLoading(name []byte, at int64, chunk []byte) error {
	f, err := s.change(name, nil)
	if err != nil {
		return err
	}
	defer f.changing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if f.loading == nil || f.loading.LoadChunk(at, chunk) != nil {
		return errBadData
	}
	b := new(shale.Batch)
	err = b.Put(idKey(loadSpace, f.id, uint64(at)), chunk)
	if err == nil {
		err = s.write(b)
	}
	if err == nil {
		err = s.finishLoading(f)
	}
	if err != nil {
		f.stale, f.err = true, err
	}
	return err
}

// finishLoading ends the loading if all chunks are there. Requires: changing and mu are held.
func (s *server) finishLoading(f *filter) error {
	bf, err := f.loading.Filter()
	if err != nil {
		return nil // chunks are missing
	}
	f.bf, f.loading = bf, nil
	f.reshape()
	if err := s.saveFilter(f, nil); err != nil {
		return err
	}
	return s.deleteRange(shale.Prefix(idKey(loadSpace, f.id)))
}
