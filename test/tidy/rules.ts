/** The rules of tidy.test.ts as data: each with what to do instead, each exception with its reason. */

export interface Layer {
  /** The files that stand in it; the first layer that matches is a file's. */
  readonly layer: RegExp;
  /** Paths from the root, package names, and `node:` modules. */
  readonly mayImport: RegExp;
  readonly instead: string;
}

const NODE_OR_PACKAGE = String.raw`node:|@?[a-z][\w./-]*$`;
/** `src/…` is a path and never a package. */
const packagesAnd = (...paths: readonly string[]) =>
  new RegExp(`^(?:(?!src/|tasks/|test/|bench/|examples/)(?:${NODE_OR_PACKAGE})|${paths.join("|")})`);

/** A dispatch takes what an admission returned: that the type comes from there is the protocol. */
const FROM_ANOTHER_VERB: Readonly<Record<string, readonly string[]>> = {
  dispatch: ["src/admit/admit.ts$"],
  // An intent is an admission: its lost COMMIT is asked about as theirs is, and its window is a dispatch's.
  inline: ["src/admit/unconfirmed.ts$", "src/dispatch/window.ts$"],
};

/** Each layer of the project, innermost first. */
export const LAYERS: readonly Layer[] = [
  {
    layer: /^src\/core\//,
    mayImport: /^(?:src\/core\/|canonicalize$|zod$|node:crypto$)/,
    instead: "core is pure: hand it what it needs as an argument",
  },
  {
    layer: /^src\/adapter\//,
    mayImport: /^src\/(?:core|adapter)\//,
    instead: "the call of an adapter knows core alone",
  },
  {
    layer: /^src\/store\//,
    mayImport: packagesAnd("src/core/", "src/store/"),
    instead: "store is SQL without decisions: take what it needs as an argument",
  },
  {
    layer: /^src\/runtime\.ts$/,
    mayImport: packagesAnd("src/core/", "src/store/"),
    instead: "what every step works with stands below the steps",
  },
  {
    layer: /^src\/postgres\//,
    mayImport: packagesAnd("src/core/error", "src/postgres/"),
    instead: "the embedded server knows nothing of a ledger",
  },
  ...["request", "prepare", "admit", "dispatch", "settle", "cleanup", "reconcile", "observe", "inline"].map((verb) => ({
    layer: new RegExp(`^src/${verb}/`),
    mayImport: packagesAnd(
      `src/(?:core|store|adapter|${verb})/`,
      "src/runtime.ts$",
      ...(FROM_ANOTHER_VERB[verb] ?? []),
    ),
    instead: "a verb loads facts, lets core decide and writes by store: what two verbs share belongs below them",
  })),
  {
    layer: /^src\/(worker\/|ledger\.ts$|index\.ts$)/,
    mayImport: packagesAnd("src/(?!cli/|demo/|postgres/)"),
    instead: "the demo and the command line are built on the ledger, not under it",
  },
  {
    layer: /^src\/demo\//,
    mayImport: packagesAnd("src/(?!cli/)", "tasks/"),
    instead: "the command line starts the demo, and the demo never the command line",
  },
  { layer: /^src\/cli\//, mayImport: packagesAnd("src/", "tasks/"), instead: "the command line uses src alone" },
  {
    layer: /^src\/operations\//,
    mayImport: packagesAnd("src/core/", "src/operations/"),
    instead: "what drives a recipe's client knows nothing of the ledger that runs it",
  },
  {
    // graphile-worker takes every file in tasks for a job handler, so a recipe's second file stands in src/operations.
    layer: /^tasks\//,
    mayImport: packagesAnd("src/index.ts$", "src/operations/"),
    instead: "a recipe uses the public names of src/index.ts, packages, and what drives its client in src/operations",
  },
];

/** The beginning of a statement in a string of ours. */
export const SQL_TEXT =
  /["'`]\s*(?:select\s[^"'`]*?(?:\sfrom\s|[\w.]+\()|insert into\s|update [\w.]+ set\s|delete from\s|with \w+ as|(?:create|drop|alter) (?:table|database|role|schema|view|function|system)\s|set local\s|lock table\s)|\.query\(["'`](?:begin|commit|rollback)\b/i;

/** Where SQL may stand in src. An exception that is no longer needed fails. */
export const MAY_HOLD_SQL: readonly { readonly at: RegExp; readonly because: string }[] = [
  { at: /^src\/store\//, because: "the seam to the database" },
  {
    at: /^src\/demo\//,
    because: "the demo is an application: it has tables of its own, and shows what an auditor types",
  },
  { at: /^src\/cli\/checks\.ts$/, because: "what it advises an operator to type" },
];

export interface CodeBan {
  readonly ban: RegExp;
  readonly where: RegExp;
  readonly except?: RegExp;
  readonly instead: string;
}
const CODE = /^(src|tasks|test|bench|examples)\/.*\.ts$/;

export const BANNED_CODE: readonly CodeBan[] = [
  {
    ban: /\b(?:Date\.now|new Date\(\)|Math\.random|randomBytes|randomUUID|process\.[a-zA-Z]|setTimeout|setInterval|performance\.[a-z])/,
    where: /^src\/core\//,
    instead: "core has no clock, randomness or environment: take it as an argument",
  },
  {
    ban: /\bMath\.random\b/,
    where: /^test\/.*\.ts$/,
    except: /^test\/tidy\//,
    instead: "fast-check, which prints its seed",
  },
  {
    ban: /\bas any\b(?=[\s;,.)\]}]*$|[;,.)\]}[])/m,
    where: CODE,
    except: /^test\/tidy\//,
    instead: "unknown, and a check of what it is",
  },
  {
    ban: /@ts-(?:ignore|nocheck)\b/,
    where: CODE,
    except: /^test\/tidy\//,
    instead: "@ts-expect-error with a reason, in a test of types",
  },
  {
    ban: /\bconsole\.(?:log|info|debug)\b/,
    where: /^(src|tasks)\//,
    except: /^src\/(cli|demo)\//,
    instead: "return it, or log it through the runtime's log",
  },
  {
    ban: /\b(?:test|describe|it|suite)\.(?:only|skip|todo)\(|\bonly: true\b/,
    where: /^test\/.*\.ts$/,
    except: /^test\/tidy\//,
    instead: "let it run; { skip: reason } where the machine lacks a program",
  },
  {
    ban: /\bsetTimeout\(|"node:timers\/promises"/,
    where: /^test\/.*\.ts$/,
    // wait.ts is the helper; two bound how long a real server starts or ends; the fixtures' operations take time on purpose.
    except: /^test\/(tidy\/|harness\/(wait|server)\.ts$|adapters\/mail-server\.ts$|fixtures\/)/,
    instead: "wait for a condition: waitFor in test/harness/wait.ts",
  },
];

/** Words with another name here. Short on purpose: each is one that a reader of the field would reach for. */
export const BANNED_WORDS: readonly { readonly ban: RegExp; readonly instead: string }[] = [
  {
    ban: /\broll(?:s|ed|ing)? ?back (?:the|an|its) effects?\b/i,
    instead: "an effect is never taken back: a compensating action is a new effect",
  },
  { ban: /\bcompensating transaction\b/i, instead: "a compensating action: a new effect with its own admission" },
  {
    ban: /\b(?:retry|retries|retried|retrying) (?:the|an|its) effects?\b/i,
    instead: "a follower: a new effect that tries an earlier one again",
  },
  { ban: /\b(?:stuck|zombie|in-doubt) effects?\b/i, instead: "an unresolved effect" },
  { ban: /\beffect'?s? idempotency key\b/i, instead: "the effect's key" },
  { ban: /\b(?:void|poison) marker\b|\btombstone mark\b/i, instead: "a void mark" },
  { ban: /\btask handler\b/i, instead: "a job handler: a task is a unit of authority" },
  { ban: /\bdead[- ]letter/i, instead: "unresolved effects: nothing is put aside, and nothing is sent again" },
];
