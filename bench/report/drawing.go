package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/outfile"
)

// A drawn figure, with what the page says about it.
type drawn struct {
	Name  string // of the experiment
	file  string // without .svg
	fig   *chart.Figure
	svg   []byte // fig, drawn
	Text  string // how it was measured, and how to read it
	Table [][]string
}

// draw makes the figures and the page below dir.
func (r *results) draw(ctx context.Context, dir string, out io.Writer) error {
	var all []drawn
	for _, figure := range []func(*results) drawn{
		drawLevels, drawBits, drawLatency, drawThroughput, drawRuns, drawPrice, drawValues,
	} {
		if d := figure(r); d.fig != nil {
			all = append(all, d)
		}
	}
	if len(all) == 0 && len(r.of(controls, nil)) == 0 {
		return errors.New("there are no results to draw")
	}
	for i := range all {
		all[i].svg = all[i].fig.SVG()
		if err := outfile.ReplaceBytes(filepath.Join(dir, "figures", all[i].file+".svg"), all[i].svg); err != nil {
			return err
		}
	}
	html, err := page{r, all}.html()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "report.html")
	if err := outfile.ReplaceBytes(file, html); err != nil {
		return err
	}
	err = pictures(ctx, filepath.Join(dir, "figures"), all)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(out, "not all .png figures were made: %v\n", err)
	}
	fmt.Fprintln(out, file)
	return nil
}

// pictures has a browser make a .png of each .svg.
func pictures(ctx context.Context, dir string, all []drawn) error {
	browser, err := findBrowser()
	if err != nil {
		return err
	}
	profile, err := os.MkdirTemp("", "shale-browser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	bar := benchmark.NewProgress("pictures", len(all))
	defer bar.Done()
	for i, d := range all {
		bar.At(i)
		err := picture(ctx, browser, profile, dir, d)
		if err != nil && ctx.Err() == nil {
			err = picture(ctx, browser, profile, dir, d) // browsers crash now and then
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("making them takes a Chromium or Chrome on the PATH, and there is none")
}

func picture(ctx context.Context, browser, profile, dir string, d drawn) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	file := filepath.Join(dir, d.file+".png")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	width, height := d.fig.Size()
	args := []string{
		"--headless", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2", "--user-data-dir=" + profile,
		fmt.Sprintf("--window-size=%.0f,%.0f", width, height), "--screenshot=" + file,
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // a browser has none for root
	}
	err = exec.CommandContext(ctx, browser, append(args, "file://"+filepath.ToSlash(filepath.Join(dir, d.file+".svg")))...).Run()
	if _, statErr := os.Stat(file); statErr != nil {
		return fmt.Errorf("%s made no %s: %w", browser, d.file+".png", errors.Join(err, statErr))
	}
	return nil
}
