/** How the command line reads and writes durations, moments, numbers, tables and errors: its small parts, in this process. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatDuration, parseAge, parseDuration } from "../../src/cli/duration.ts";
import { EXIT, exitCodeOf } from "../../src/cli/exit-code.ts";
import { formatMoment, parseMoment } from "../../src/cli/moment.ts";
import { wholeNumber } from "../../src/cli/number.ts";
import { toJson } from "../../src/cli/output.ts";
import { strikeOutPasswords } from "../../src/cli/passwords.ts";
import { tableLines } from "../../src/cli/table.ts";
import { timelineWords } from "../../src/cli/timeline-words.ts";

const NOON = new Date(2026, 10, 30, 12, 0, 0);

describe("a duration", () => {
  test("is a number and a unit", () => {
    const read = ["500ms", "1s", "1.5s", "15m", "15min", "2h", "24h", "1d", " 90s "].map((text) => parseDuration(text));
    assert.deepEqual(read, [500, 1_000, 1_500, 900_000, 900_000, 7_200_000, 86_400_000, 86_400_000, 90_000]);
  });

  test("is refused where it is none, is nothing, or is longer than may be", () => {
    const wrong = ["", "NaN", "Infinity", "15", "-1s", "1e3s", "0s", "0.0001s", "25h", "2d", "1h30m", "1 week", "٣s"];
    for (const text of wrong) assert.throws(() => parseDuration(text), { code: "duration_invalid" }, text);
    assert.equal(parseAge("30d"), 30 * 86_400_000);
  });

  test("is shown in the largest unit that it fills", () => {
    const shown = [-5, 0, 999, 1_000, 59_999, 60_000, 3_599_999, 3_600_000, 172_799_999, 172_800_000].map(
      formatDuration,
    );
    assert.deepEqual(shown, ["0 ms", "0 ms", "999 ms", "1 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]);
  });
});

describe("a moment", () => {
  test("is ISO 8601, a time of day, or a duration from now", () => {
    const past = (text: string) => parseMoment(text, "past", NOON).getTime();
    const future = (text: string) => parseMoment(text, "future", NOON).getTime();
    assert.equal(past("2026-11-30T02:00Z"), Date.UTC(2026, 10, 30, 2));
    assert.equal(past("2026-11-30 02:00:01.5+02:00"), Date.UTC(2026, 10, 30, 0, 0, 1, 500));
    assert.equal(past("2026-11-30"), new Date(2026, 10, 30).getTime());
    assert.equal(past("02:00"), new Date(2026, 10, 30, 2).getTime());
    assert.equal(past("13:00"), new Date(2026, 10, 29, 13).getTime());
    assert.equal(future("13:00:30"), new Date(2026, 10, 30, 13, 0, 30).getTime());
    assert.equal(future("11:00"), new Date(2026, 11, 1, 11).getTime());
    assert.equal(past("2h"), NOON.getTime() - 7_200_000);
    assert.equal(future("2h"), NOON.getTime() + 7_200_000);
  });

  test("is refused where it is none", () => {
    for (const text of [
      "",
      "yesterday",
      "24:00",
      "2026-13-01",
      "2026-11-30T25:00Z",
      "12",
      "11/30/2026",
      "99999999999999s",
    ]) {
      assert.throws(() => parseMoment(text, "past", NOON), { code: "moment_invalid" }, text);
    }
  });

  test("shows its date only where it is not today", () => {
    assert.equal(formatMoment(new Date(2026, 10, 30, 2, 14, 7), NOON), "02:14:07");
    assert.equal(formatMoment(new Date(2026, 11, 1, 2, 14, 7), NOON), "2026-12-01 02:14:07");
  });
});

test("a number is whole and within its bounds", () => {
  const parse = wholeNumber(1, 50);
  assert.deepEqual([parse("1"), parse("50")], [1, 50]);
  for (const text of ["", "0", "51", "1.5", "1e1", "0x10", "NaN", "99999999999999999"]) {
    assert.throws(() => parse(text), { code: "number_invalid" }, text);
  }
});

test("the ledger's refusals exit 4, a closed ledger 6, what nobody foresaw 1", () => {
  const exits = [
    "PE101",
    "PE111",
    "0A000",
    "ledger_standby",
    "25006",
    "usage_invalid",
    "PE999",
    "server_unreachable",
    "XX000",
  ];
  assert.deepEqual(exits.map(exitCodeOf), [4, 4, 4, 6, 6, 2, EXIT.fault, EXIT.fault, EXIT.fault]);
});

test("amounts beyond 2^53 leave as decimal strings", () => {
  assert.equal(
    toJson({ held: { usd_cents: 9_223_372_036_854_775_807n } }),
    '{"held":{"usd_cents":"9223372036854775807"}}',
  );
});

test("a password is struck out wherever an address stands", () => {
  const struck = [
    "--databse=postgres://ana:pass@word@host/db?x=1 is unknown",
    "postgresql://ana:p%40ss@[::1]:5432/db",
    "host=db password=hunter22 user=ana",
    "postgres://host/db?password=hunter22&user=ana",
  ].map(strikeOutPasswords);
  assert.deepEqual(struck, [
    "--databse=postgres://ana:[password]@host/db?x=1 is unknown",
    "postgresql://ana:[password]@[::1]:5432/db",
    "host=db password=[password] user=ana",
    "postgres://host/db?password=[password]&user=ana",
  ]);
  assert.equal(
    strikeOutPasswords("see https://example.com/a for user:name"),
    "see https://example.com/a for user:name",
  );
});

describe("a table", () => {
  const columns = [
    { title: "name", cell: ([name]: readonly [string, string, string]) => name },
    { title: "nothing", cell: ([, nothing]: readonly [string, string, string]) => nothing },
    { title: "age", align: "right" as const, cell: ([, , age]: readonly [string, string, string]) => age },
  ];

  test("leaves out columns in which nothing stands, and shows control and bidirectional characters inert", () => {
    const lines = tableLines(columns, [
      ["order/42", "", "9 min"],
      ["a\u001b[31m\u202eb", "", "41 min"],
    ]);
    assert.deepEqual(lines, ["name         age", "order/42   9 min", "a\ufffd[31m\ufffdb  41 min"]);
  });

  test("wraps its last column on a narrow screen, and sets rows below each other on a very narrow one", () => {
    const rows = [
      ["order/42", "", "the recipient said that it was busy"],
      ["order/43", "nothing much", "x".repeat(30)],
    ] as const;
    const wide = columns.map(({ title, cell }) => ({ title, cell }));
    assert.deepEqual(tableLines(wide, rows, 48), [
      "name      nothing       age",
      "order/42                the recipient said that",
      "                        it was busy",
      `order/43  nothing much  ${"x".repeat(30)}`, // never within a word
    ]);
    assert.deepEqual(tableLines(wide, rows, 40), [
      "name     order/42",
      "age      the recipient said that it was busy",
      "",
      "name     order/43",
      "nothing  nothing much",
      `age      ${"x".repeat(30)}`,
    ]);
    assert.deepEqual(tableLines(wide, rows, 59), tableLines(wide, rows));
  });

  test("without rows has no header", () => {
    assert.deepEqual(tableLines(columns, []), []);
  });
});

test("a timeline says a detail that it has no words for as it is", () => {
  const at = NOON;
  const words = timelineWords({
    effect_id: "",
    name: null,
    at,
    what: "denied",
    by_role: "",
    detail: { new_field: [1], code: "paused" },
  });
  assert.equal(words, "paused, new_field [1]");
});
