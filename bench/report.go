package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// section is what one benchmark found.
type section struct {
	name, what, command string
	tables              []table
	notes               []string
}

// table is figures; every row has as many cells as head.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// verdicts is a table of figures that have targets.
func verdicts() table { return table{head: []string{"figure", "measured", "target", "met"}} }

func (t *table) judge(figure, measured, target string, met bool) {
	t.add(figure, measured, target, map[bool]string{true: "yes", false: "**no**"}[met])
}

// text draws the tables so that people and Markdown can read them.
func (s *section) text() string {
	var b strings.Builder
	for _, t := range s.tables {
		b.WriteByte('\n')
		t.draw(&b)
	}
	for _, n := range s.notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}

func (t *table) draw(b *strings.Builder) {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			b.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.head)
	rule := make([]string, len(width))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
}

const preface = `# Results

Measured by this folder's program; ` + "`make bench`" + ` prints the same tables for your machine. Figures are medians, ratios are medians of the
ratios within one round. A section says by which command and at which commit it was measured; read ratios, not absolute figures, across machines.
`

// writeSection puts a section into the file in place of the one of its name.
// Sections that nothing measures are left as they stand.
func writeSection(file string, s *section, m machine, at string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parts := strings.Split(string(old), "\n## ")
	parts[0] = preface
	text := fmt.Sprintf("%s: %s\n\n`%s` at %s; %s.\n%s", s.name, s.what, s.command, at, m, s.text())
	place := slices.IndexFunc(parts[1:], func(p string) bool { return strings.HasPrefix(p, s.name+":") })
	if place >= 0 {
		parts[1+place] = text
	} else {
		parts = append(parts, text)
	}
	return os.WriteFile(file, []byte(strings.Join(trimmed(parts), "\n\n## ")+"\n"), 0o644)
}

func trimmed(parts []string) []string {
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}
