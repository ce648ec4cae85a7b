package files_test

import (
	"strings"
	"testing"
)

// An edit by exact text says how often and where the text is, and what is there that is like it.
func TestEditFile(t *testing.T) {
	t.Parallel()
	f := open(t, map[string]string{
		"a.go": "package a\n\nfunc Total(prices []int) int {\n\tsum := 0\n\tfor _, p := range prices {\n\t\tsum += p\n" +
			"\t}\n\treturn sum\n}\n",
		"many": strings.Repeat("x\n", 100),
	})
	for _, row := range []struct{ arguments, want string }{
		{`{"path":"a.go","search":"sum","replace":"total"}`,
			"it is in a.go 3 times, at lines 4, 6, 8; add lines around the part until it is there once, or set replace_all"},
		{`{"path":"a.go","search":"for _, p := range price {\n\t\tsum += p","replace":"x"}`,
			"The nearest lines are:\n5\t\tfor _, p := range prices {\n6\t\t\tsum += p\n"},
		{`{"path":"a.go","search":"        sum += p","replace":"x"}`, "The nearest lines are:\n6\t\t\tsum += p\n"},
		{`{"path":"a.go","search":"nothing like that at all","replace":"x"}`, "copy the part exactly"},
		{`{"path":"many","search":"x","replace":"y"}`,
			"100 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, ...;"},
	} {
		if r := f.call(t, "edit_file", row.arguments); !r.Failed || !strings.Contains(r.Text, row.want) ||
			len(r.Text) > 2000 {
			t.Errorf("%s: %+v, want %q", row.arguments, r, row.want)
		}
	}

	r := f.call(t, "edit_file", `{"path":"a.go","search":"sum","replace":"total","replace_all":true}`)
	if r.Failed || r.Summary != "Edited a.go (3 changes)" || strings.Contains(f.text(t, "a.go"), "sum") {
		t.Errorf("f.call = %+v", r)
	}
	if r := f.call(t, "edit_file", `{"path":"many","search":"x","replace":$,"replace_all":true}`,
		strings.Repeat("y", 200_000)); !r.Failed || !strings.Contains(r.Text, "10 MiB") {
		t.Errorf("r.Text = %.200q", r.Text)
	}
}

// An edit of lines by numbers that are off changes nothing, and says what is there.
func TestEditLines(t *testing.T) {
	t.Parallel()
	const five = "one\ntwo\nthree\nfour\nfive\n"
	for _, row := range []struct{ before, arguments, after, says string }{
		{five, `"start_line":2,"end_line":3,"text":"2\n3\n","old_text":"two\nthree\n"`, "one\n2\n3\nfour\nfive\n",
			"Edited lines 2 to 3 of f"},
		{five, `"start_line":2,"end_line":2,"text":"2","first_line":"two"`, "one\n2\nthree\nfour\nfive\n",
			"Edited line 2 of f"},
		{five, `"start_line":2,"end_line":4,"text":"","first_line":"two","last_line":"four"`, "one\nfive\n",
			"Edited lines 2 to 4"},
		{five, `"start_line":1,"end_line":5,"text":"all","old_text":"one\ntwo\nthree\nfour\nfive"`, "all\n", "Edited"},
		{five, `"start_line":2,"end_line":1,"text":"1.5","first_line":"two"`, "one\n1.5\ntwo\nthree\nfour\nfive\n",
			"Added 1 line before line 2"},
		{five, `"start_line":6,"end_line":5,"text":"six"`, five + "six\n", "Added"},
		{"one\ntwo", `"start_line":3,"end_line":2,"text":"three"`, "one\ntwo\nthree", "Added"},
		{"one\ntwo", `"start_line":2,"end_line":2,"text":"2","old_text":"two"`, "one\n2", "Edited"},
		{"", `"start_line":1,"end_line":0,"text":"one\n"`, "one\n", "Added"},
		{"a\r\nb\r\n", `"start_line":2,"end_line":2,"text":"x\ny","old_text":"b"`, "a\r\nx\r\ny\r\n", "Edited"},
		{"\tx := 1\n", `"start_line":1,"end_line":1,"text":"\tx := 2","old_text":"\tx := 1"`, "\tx := 2\n", "Edited"},

		{five, `"start_line":3,"end_line":4,"text":"x","old_text":"two\nthree"`, "", "old_text: the lines of f are others, " +
			"so nothing was changed; it is at line 2. Around line 3 there is:\n1\tone\n2\ttwo\n3\tthree\n4\tfour\n5\tfive\n"},
		{five, `"start_line":2,"end_line":2,"text":"x","first_line":"too"`, "", "first_line: the lines of f are others"},
		{five, `"start_line":2,"end_line":4,"text":"x","first_line":"two","last_line":"three"`, "",
			"last_line: the lines of f are others, so nothing was changed; it is at line 3"},
		{five, `"start_line":3,"end_line":2,"text":"x","first_line":"two"`, "", "first_line"},
		{"\tx := 1\n", `"start_line":1,"end_line":1,"text":"x","old_text":"x := 1"`, "", "old_text"},
		{five, `"start_line":2,"end_line":3,"text":"x"`, "", "old_text: give the lines as they are now"},
		{five, `"start_line":2,"end_line":3,"text":"x","first_line":"two"`, "", "last_line: give the last"},
		{five, `"start_line":0,"end_line":3,"text":"x","old_text":"one"`, "", "start_line: lines are counted from 1"},
		{five, `"start_line":3,"end_line":1,"text":"x","old_text":"one"`, "", "end_line: it is before start_line"},
		{five, `"start_line":5,"end_line":6,"text":"x","old_text":"one"`, "", "end_line: f has only 5 lines"},
		{five, `"start_line":9,"end_line":8,"text":"x"`, "", "f has only 5 lines"},
		{five, `"start_line":1,"end_line":1,"text":"one","old_text":"one"`, "", "text: it is the same"},
		{"a\x00", `"start_line":1,"end_line":1,"text":"one","old_text":"one"`, "", "binary"},
	} {
		f := open(t, map[string]string{"f": row.before})
		r := f.call(t, "edit_lines", `{"path":"f",`+row.arguments+`}`)
		want := row.after
		if refused := row.after == ""; refused {
			want = row.before
		}
		if got := f.text(t, "f"); got != want || r.Failed != (row.after == "") || !strings.Contains(r.Text, row.says) {
			t.Errorf("%s: %q, %+v; want %q, %q", row.arguments, got, r, want, row.says)
		}
	}
}
