package remote

import (
	"encoding/binary"
	"fmt"

	"github.com/shaledb/shale/internal/fields"
)

// The file of a page cache has room for n pages. It begins with a header of 4,096 bytes:
//
//	head 24 · n u64 · crc32c of everything before u32 · zeros
//
// The index follows, with an entry of 32 bytes for each page, which says what the page has:
//
//	number of the table u64 · its checksum u32 · page of the table u32 · first and last byte + 1 of the page
//	that are there (u32 each) · crc32c of these bytes u32 · crc32c of the entry so far u32
//
// The pages, of 64 KiB each, begin at the next multiple of that size. Nothing is ever synced, so an entry and
// its page need not fit to each other: the checksums find out. The file is a copy, and not part
// of the format of the bucket.
const (
	pageMagic  = "shalePGC"
	pageSize   = 64 << 10
	pageHeader = 4096
	pageEntry  = 32
)

// maxPages is the largest number of pages of a cache: 4 TiB.
const maxPages = 1 << 26

// A pageID names a page of a table.
type pageID struct {
	fileID
	page uint32
}

// A pageInfo says what a page of the cache has: bytes from to to of a page of a table.
type pageInfo struct {
	pageID
	from, to uint32
	sum      uint32 // of these bytes
}

// appendPageHeader appends the header, without the zeros.
func appendPageHeader(dst []byte, storeID uint64, pages int64) []byte {
	start := len(dst)
	return appendSum(appendHead(dst, pageMagic, storeID, uint64(pages)), start)
}

// checkPageHeader returns an error unless src is the header of a cache for this store with as many pages.
func checkPageHeader(src []byte, storeID uint64, pages int64) error {
	const size = headSize + 8 + sumSize
	id, err := checkHead(src, pageMagic, size)
	if err != nil {
		return err
	}
	if err := checkStored(src[:size-sumSize], src[size-sumSize:]); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(src[headSize:]); n != uint64(pages) {
		return fmt.Errorf("a cache of %d pages, want %d", n, pages)
	}
	return checkStore(id, storeID)
}

// appendPageEntry appends an entry of the index.
func appendPageEntry(dst []byte, p pageInfo) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, p.num)
	for _, v := range []uint32{p.pageID.sum, p.page, p.from, p.to, p.sum} {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	return appendSum(dst, start)
}

// decodePageEntry decodes and checks the entry at the beginning of src. An entry that was never
// written, all zeros, is an error too.
func decodePageEntry(src []byte) (pageInfo, error) {
	if len(src) < pageEntry {
		return pageInfo{}, fields.ErrShort
	}
	if err := checkStored(src[:pageEntry-sumSize], src[pageEntry-sumSize:]); err != nil {
		return pageInfo{}, err
	}
	d := fields.Decoder{Src: src[:pageEntry]}
	var p pageInfo
	p.kind, p.num = KindTable, d.Uint64()
	p.pageID.sum, p.page, p.from, p.to, p.sum = d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32()
	if p.from >= p.to || p.to > pageSize {
		return pageInfo{}, fmt.Errorf("bytes %d to %d of a page", p.from, p.to)
	}
	if err := checkNum("table", p.num); err != nil {
		return pageInfo{}, err
	}
	return p, nil
}

// decodePageIndex calls fn for each entry of an index that checks, with its place.
func decodePageIndex(src []byte, fn func(i int, p pageInfo)) {
	for i := 0; len(src) >= pageEntry; i++ {
		if p, err := decodePageEntry(src); err == nil {
			fn(i, p)
		}
		src = src[pageEntry:]
	}
}

// pageOffset returns where page i begins in the file of a cache with n pages.
func pageOffset(n, i int64) int64 {
	index := pageHeader + n*pageEntry
	return (index+pageSize-1)/pageSize*pageSize + i*pageSize
}

// pagesIn returns for how many pages there is room in a number of bytes.
func pagesIn(bytes int64) int64 {
	n := min(max(bytes-pageHeader, 0)/(pageSize+pageEntry), maxPages)
	for n > 0 && pageOffset(n, n) > bytes {
		n--
	}
	return n
}
