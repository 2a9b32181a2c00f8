// Package buckettest is the suite that every implementation of bucket.Bucket
// passes: one subtest per promise. Read [Run] first.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

// Run runs the suite; open gives each subtest an empty bucket.
func Run(t *testing.T, open func(t *testing.T) bucket.Bucket) {
	// :: promise → its test
	for name, test := range map[string]func(*testing.T, bucket.Bucket){
		"ABlobIsKeptByteForByte":                               testRoundTrip,
		"WhatDoesNotExistIsNotFound":                           testNotFound,
		"IfAbsentRefusesANameThatIsTaken":                      testIfAbsent,
		"OfPutsIfAbsentExactlyOneWins":                         testIfAbsentRace,
		"APutReplacesWholeAndReadersKeepWhatTheyOpened":        testReplace,
		"APutThatFailsLeavesWhatWasThere":                      testFailedPut,
		"AListIsOrderedAndHasThePrefix":                        testList,
		"ADeletedBlobIsGoneAndDeletingAgainIsNoError":          testDelete,
		"ARetainedBlobIsNeitherDeletedNorReplacedBeforeItsDay": testRetained,
		"ABadNameIsRefused":                                    testBadNames,
		"AReaderSeesOneWholeBlobUnderConcurrentWrites":         testConcurrent,
		"AnEndedContextDoesNothing":                            testEndedContext,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func put(t *testing.T, b bucket.Bucket, name, content string) bucket.Info {
	t.Helper()
	i, err := b.Put(t.Context(), name, strings.NewReader(content), false)
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return i
}

func read(b bucket.Bucket, name string) (string, bucket.Info, error) {
	r, i, err := b.Open(context.Background(), name)
	if err != nil {
		return "", i, err
	}
	content, err := io.ReadAll(r)
	return string(content), i, errors.Join(err, r.Close())
}

func holds(t *testing.T, b bucket.Bucket, name, content string) {
	t.Helper()
	got, _, err := read(b, name)
	if err != nil || got != content {
		t.Fatalf("%s holds %.40q (%d bytes), %v; want %.40q", name, got, len(got), err, content)
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

func testRoundTrip(t *testing.T, b bucket.Bucket) {
	big := bytes.Repeat([]byte("0123456789abcdef\x00\xff"), 200_000)
	for name, content := range map[string]string{"empty": "", "a": "x", "a/b": "y", "a/b/c d/é=+.%2f": "z", "a.": "w", "big": string(big)} {
		i := put(t, b, name, content)
		if i.Name != name || i.Size != int64(len(content)) || time.Since(i.Modified).Abs() > time.Hour {
			t.Fatalf("put %s gave %+v", name, i)
		}
		holds(t, b, name, content)
		_, opened, _ := read(b, name)
		stat, err := b.Stat(t.Context(), name)
		if err != nil || stat.Size != i.Size || stat.Name != name || opened.Size != i.Size || opened.Name != name {
			t.Fatalf("stat %s gave %+v, open %+v, %v", name, stat, opened, err)
		}
	}
	holds(t, b, "a", "x")
}

func testNotFound(t *testing.T, b bucket.Bucket) {
	put(t, b, "a/b", "x")
	for _, name := range []string{"a", "b", "a/b/c", "a/c"} {
		_, _, err := b.Open(t.Context(), name)
		wantError(t, err, bucket.ErrNotFound)
		_, err = b.Stat(t.Context(), name)
		wantError(t, err, bucket.ErrNotFound)
	}
}

func testIfAbsent(t *testing.T, b bucket.Bucket) {
	if _, err := b.Put(t.Context(), "a/b", strings.NewReader("first"), true); err != nil {
		t.Fatal(err)
	}
	_, err := b.Put(t.Context(), "a/b", strings.NewReader("second"), true)
	wantError(t, err, bucket.ErrExists)
	holds(t, b, "a/b", "first")
}

func testRetained(t *testing.T, b bucket.Bucket) {
	kept := bucket.Retained("a/b", time.Now())
	put(t, b, kept, "first")
	wantError(t, b.Delete(t.Context(), kept), bucket.ErrRetained)
	_, err := b.Put(t.Context(), kept, strings.NewReader("second"), false)
	wantError(t, err, bucket.ErrExists)
	holds(t, b, kept, "first")
	over := bucket.Retained("a/b", time.Now().AddDate(0, 0, -1))
	put(t, b, over, "old")
	if err := b.Delete(t.Context(), over); err != nil {
		t.Fatalf("a day after its day it is not deleted: %v", err)
	}
	_, _, err = read(b, over)
	wantError(t, err, bucket.ErrNotFound)
}

func testIfAbsentRace(t *testing.T, b bucket.Bucket) {
	var all sync.WaitGroup
	won := make(chan string, 8)
	for i := range 8 {
		all.Go(func() {
			content := strings.Repeat(fmt.Sprint(i), 100_000)
			_, err := b.Put(t.Context(), "x/y", strings.NewReader(content), true)
			if err == nil {
				won <- content
			} else if !errors.Is(err, bucket.ErrExists) {
				t.Errorf("got %v, want %v", err, bucket.ErrExists)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d won, want one", len(won))
	}
	holds(t, b, "x/y", <-won)
}

func testReplace(t *testing.T, b bucket.Bucket) {
	put(t, b, "a", "first")
	r, _, err := b.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "a", "second one")
	old, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(old) != "first" {
		t.Fatalf("the reader got %q, %v", old, err)
	}
	holds(t, b, "a", "second one")
}

func testFailedPut(t *testing.T, b bucket.Bucket) {
	put(t, b, "a", "first")
	broken := errors.New("the source broke")
	for _, name := range []string{"a", "new"} {
		source := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), iotest.ErrReader(broken))
		_, err := b.Put(t.Context(), name, source, false)
		wantError(t, err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	source := io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) { cancel(); return 0, nil }))
	_, err := b.Put(ctx, "new", source, false)
	wantError(t, err, context.Canceled)
	holds(t, b, "a", "first")
	list, err := b.List(t.Context(), "")
	if err != nil || len(list) != 1 {
		t.Fatalf("the list is %v, %v", list, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func testList(t *testing.T, b bucket.Bucket) {
	list, err := b.List(t.Context(), "")
	if err != nil || len(list) != 0 {
		t.Fatalf("an empty bucket lists %v, %v", list, err)
	}
	names := []string{"a", "a-b", "a/b", "a/b/c", "a/bc", "a/d", "ab/c", "b", "é"}
	for _, n := range slices.Backward(names) {
		put(t, b, n, n)
	}
	for prefix, want := range map[string][]string{
		"": names, "a": names[:7], "a/": names[2:6], "a/b": names[2:5], "a/b/": names[3:4], "a/b/c": names[3:4],
		"ab": names[6:7], "b": names[7:8], "c": nil, "a/b/c/d": nil, "/": nil, "..": nil, "../": nil, "a/../": nil, "a//": nil,
	} {
		list, err := b.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range list {
			got = append(got, i.Name)
			if i.Size != int64(len(i.Name)) {
				t.Errorf("%s has size %d", i.Name, i.Size)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %q gave %v, want %v", prefix, got, want)
		}
	}
}

func testDelete(t *testing.T, b bucket.Bucket) {
	put(t, b, "a/b", "x")
	put(t, b, "a", "y")
	for range 2 {
		if err := b.Delete(t.Context(), "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Stat(t.Context(), "a/b")
	wantError(t, err, bucket.ErrNotFound)
	holds(t, b, "a", "y")
	put(t, b, "a/b", "again")
	holds(t, b, "a/b", "again")
}

func testBadNames(t *testing.T, b bucket.Bucket) {
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", "a\x00b", "a\nb", "\x7f", "a\xff",
		strings.Repeat("x", bucket.MaxPart+1), strings.Repeat("x/", bucket.MaxName/2) + "x",
	} {
		_, err := b.Put(t.Context(), name, strings.NewReader("x"), false)
		wantError(t, err, bucket.ErrBadName)
		_, _, err = b.Open(t.Context(), name)
		wantError(t, err, bucket.ErrBadName)
		_, err = b.Stat(t.Context(), name)
		wantError(t, err, bucket.ErrBadName)
		wantError(t, b.Delete(t.Context(), name), bucket.ErrBadName)
	}
	longest := strings.Repeat(strings.Repeat("x", bucket.MaxPart)+"/", 2)
	longest += strings.Repeat("x", bucket.MaxName-len(longest))
	put(t, b, longest, "x")
	holds(t, b, longest, "x")
}

func testConcurrent(t *testing.T, b bucket.Bucket) {
	content := func(i int) string { return strings.Repeat(string(rune('a'+i)), 50_000+i) }
	put(t, b, "shared", content(0))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 10 {
				if _, err := b.Put(t.Context(), "shared", strings.NewReader(content(i)), false); err != nil {
					t.Errorf("put: %v", err)
				}
				own := fmt.Sprintf("own/%d/x", i)
				_, err := b.Put(t.Context(), own, strings.NewReader("x"), false)
				if err = errors.Join(err, b.Delete(t.Context(), own)); err != nil {
					t.Errorf("own: %v", err)
				}
			}
		})
		all.Go(func() {
			for range 20 {
				got, info, err := read(b, "shared")
				if err != nil || info.Size != int64(len(got)) || got != content(int(got[0]-'a')) {
					t.Errorf("read %d bytes of %d, %v", len(got), info.Size, err)
					return
				}
				list, err := b.List(t.Context(), "")
				if err != nil || !slices.ContainsFunc(list, func(i bucket.Info) bool { return i.Name == "shared" }) {
					t.Errorf("list: %v, %v", list, err)
				}
			}
		})
	}
	all.Wait()
}

func testEndedContext(t *testing.T, b bucket.Bucket) {
	put(t, b, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Put(ctx, "a", strings.NewReader("y"), false)
	wantError(t, err, context.Canceled)
	_, _, err = b.Open(ctx, "a")
	wantError(t, err, context.Canceled)
	_, err = b.List(ctx, "")
	wantError(t, err, context.Canceled)
	wantError(t, b.Delete(ctx, "a"), context.Canceled)
	holds(t, b, "a", "x")
}
