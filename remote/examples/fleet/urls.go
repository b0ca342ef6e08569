package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
)

// loadURLs returns the URLs of a file, or n that are made up, in random order.
func loadURLs(name string, n int) ([][]byte, error) {
	var urls [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	if name == "" {
		for i := range n {
			urls = append(urls, fmt.Appendf(nil, "http://host%05d.example/%08x/%d", random.IntN(20_000), random.Uint32(), i))
		}
		return urls, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if len(s.Bytes()) > 0 {
			urls = append(urls, append([]byte{}, s.Bytes()...))
		}
	}
	if len(urls) < 2 {
		return nil, fmt.Errorf("%s has %d URLs, at least 2 are needed", name, len(urls))
	}
	random.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	return urls, nil
}
