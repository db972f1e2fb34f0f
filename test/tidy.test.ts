/**
 * The rules of this project, executed. A failure names each place and what to do instead. What biome sees in the syntax
 * tree (floating promises, any, console, non-null assertions) is in biome.jsonc; here is what it cannot see.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { BANNED_CODE, BANNED_WORDS, LAYERS, MAY_HOLD_SQL, SQL_TEXT } from "./tidy/rules.ts";
import { FILES, filesIn, placesOf, type TreeFile } from "./tidy/tree.ts";

const OWN_CODE = /^(src|tasks|test|bench|examples)\/.*\.ts$/;

/** Fails with what to do, and every place where it is to be done. */
function none(places: readonly string[], instead: string): void {
  assert.equal(places.length, 0, `${instead}\n  ${places.join("\n  ")}`);
}

describe("who may import whom", () => {
  const layerOf = (path: string) => LAYERS.find(({ layer }) => layer.test(path));

  test("every file of src and tasks stands in a layer, and imports only what that layer may", () => {
    for (const { path, imports } of filesIn(/^(src|tasks)\/.*\.ts$/)) {
      const layer = layerOf(path);
      assert.ok(layer, `${path}: say in test/tidy/rules.ts where it stands`);
      const wrong = imports.filter(({ file, from }) => !layer.mayImport.test(file ?? from));
      none(
        wrong.map(({ from }) => `${path} imports ${from}`),
        layer.instead,
      );
    }
  });

  test("core takes nothing but types from zod", () => {
    const values = filesIn(/^src\/core\//).filter(({ imports }) =>
      imports.some(({ from, typeOnly }) => from === "zod" && !typeOnly),
    );
    none(
      values.map(({ path }) => path),
      "core is pure: import type, and let worker/operations.ts call zod",
    );
  });

  test("no file imports itself by way of others", () => {
    const imports = new Map(FILES.map((file) => [file.path, file.imports.flatMap((each) => each.file ?? [])]));
    const done = new Set<string>();
    const walk = (path: string, way: readonly string[]): readonly string[] => {
      if (way.includes(path)) return [[...way.slice(way.indexOf(path)), path].join(" > ")];
      if (done.has(path)) return [];
      const found = (imports.get(path) ?? []).flatMap((next) => walk(next, [...way, path]));
      done.add(path);
      return found;
    };
    none(
      FILES.flatMap(({ path }) => walk(path, [])),
      "move what both need into a file of its own, or take it as an argument",
    );
  });

  test("every import of ours is of a file that is there", () => {
    const paths = new Set(FILES.map(({ path }) => path));
    const gone = FILES.flatMap(({ path, imports }) =>
      imports.filter(({ file }) => file?.endsWith(".ts") && !paths.has(file)).map(({ from }) => `${path}: ${from}`),
    );
    none(gone, "import what exists");
  });

  test("only src/index.ts gathers names, and only operations have a default export", () => {
    const sources = filesIn(/^src\//).filter(({ path }) => path !== "src/index.ts");
    none(placesOf(sources, /^export (?:\*|(?:type )?\{[^}]*\} from).*/m), "import from the file that has it");
    const named = sources.filter(({ path }) => !/^src\/demo\/tasks\//.test(path));
    none(
      placesOf(named, /^export default .*/m),
      "give it a name; only graphile-worker's loader wants a default export",
    );
  });
});

describe("SQL", () => {
  const sources = filesIn(/^src\//);

  test("is in migrations and src/store, and nowhere else in src", () => {
    const others = sources.filter(({ path }) => !MAY_HOLD_SQL.some(({ at }) => at.test(path)));
    none(placesOf(others, SQL_TEXT), "move the statement to the file in src/store of its table family, and call that");
  });

  test("has no exception that nobody needs", () => {
    const needless = MAY_HOLD_SQL.filter(
      ({ at }) =>
        placesOf(
          sources.filter(({ path }) => at.test(path)),
          SQL_TEXT,
        ).length === 0,
    );
    none(
      needless.map(({ at, because }) => `${at.source}: ${because}`),
      "take it out of MAY_HOLD_SQL",
    );
  });
});

describe("bans", () => {
  for (const { ban, where, except, instead } of BANNED_CODE) {
    test(`${ban.source} in ${where.source}: ${instead}`, () => {
      none(
        placesOf(
          filesIn(where).filter(({ path }) => !except?.test(path)),
          ban,
        ),
        instead,
      );
    });
  }

  test("no word for what has another name here (protocol, section 1)", () => {
    const prose = filesIn(/\.(ts|sql|md|json)$/).filter(({ path }) => !/^test\/tidy/.test(path));
    for (const { ban, instead } of BANNED_WORDS) none(placesOf(prose, ban), instead);
  });

  test("exactly-once is said only in the README and the documentation, and only to deny it", () => {
    const once = /exactly[ -]once/i;
    const outside = filesIn(/\.(ts|sql|json)$/).filter(({ path }) => !/^test\/tidy/.test(path));
    none(placesOf(outside, once), "say `at most once`: the other is not offered");
    const sentences = filesIn(/\.md$/).flatMap(({ path, text }) =>
      text.split(/\n\s*\n|\n- |[.!?:]\s/).map((said) => ({ path, said })),
    );
    const claimed = sentences.filter(
      ({ said }) => once.test(said) && !/\b(not?|never|nobody|neither|cannot|without)\b|n't/i.test(said),
    );
    none(
      claimed.map(({ path, said }) => `${path}: ${said.trim()}`),
      "deny it in the same sentence, or say `at most once`",
    );
  });
});

describe("files", () => {
  test("hold one idea: at most 350 lines", () => {
    const long = FILES.filter(({ path }) => OWN_CODE.test(path) || path.endsWith(".sql"))
      .map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > 350);
    none(
      long.map(({ path, lines }) => `${path}: ${lines} lines`),
      "split it where its second idea begins",
    );
  });

  test("of src and tasks open with what they are responsible for", () => {
    const silent = filesIn(/^(src|tasks)\/.*\.ts$/).filter(({ text }) => !/^(#!.*\n)?\/\*\*/.test(text));
    none(
      silent.map(({ path }) => path),
      "open it with a comment: what it is responsible for, and what it must never do",
    );
  });

  test("of migrations open with the invariants that they establish", () => {
    const silent = filesIn(/^migrations\/.*\.sql$/).filter(
      ({ text }) => !/^(--.*\n)*-- Invariants established here/.test(text),
    );
    none(
      silent.map(({ path }) => path),
      'open it with a comment that says "Invariants established here"',
    );
  });

  test("name no folder of somebody's machine and no registry's host", () => {
    const machine = /(?:^|[\s"'`(=:])\/(?:home|root|Users|work)\/\S*|\bregistry\.[a-z]+\.(?:org|com|io)\b/m;
    none(
      placesOf(FILES, machine),
      "take folders from the environment, and packages from whatever registry npm is set to",
    );
  });

  test("export nothing to applications without a word on it", () => {
    const reached = reachedFrom("src/index.ts");
    const silent = reached.flatMap(({ path, text }) => {
      const exports = [...text.matchAll(/^export (?:async )?(?:function|class|const) (\w+)/gm)];
      const first = exports.filter(({ 1: name }, place) => exports.findIndex((other) => other[1] === name) === place);
      return first
        .filter(({ index }) => !/\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n(?:\/\/ biome-ignore.*\n)?$/.test(text.slice(0, index)))
        .map(({ 1: name }) => `${path}: ${name}`);
    });
    none(silent, "write a docstring: its meaning, units, the errors it throws, the source of the rule");
  });
});

describe("package.json", () => {
  const text = (path: string) => FILES.find((file) => file.path === path)?.text ?? "";
  const packages = JSON.parse(text("package.json")) as Record<string, Record<string, string>>;
  const KINDS = { dependencies: "", optionalDependencies: " (optional)", devDependencies: " (development)" };

  test("names exact versions", () => {
    const all = Object.keys(KINDS).flatMap((kind) => Object.entries(packages[kind] ?? {}));
    none(
      all.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)).map(String),
      "npm install --save-exact",
    );
  });

  const readme = text("README.md");
  test("names what the README's table of dependencies names", {
    skip: readme ? false : "there is no README yet",
  }, () => {
    const table = /^\| dependency \|.*\n\|[ -|]*\n((?:\|.*\n)+)/m.exec(readme)?.[1] ?? "";
    const listed = [...table.matchAll(/^\| ([^|(]+?)( \(\w+\))? \|/gm)].flatMap(([, names = "", kind = ""]) =>
      names.split(", ").map((name) => name.replaceAll("`", "") + kind),
    );
    const wanted = Object.entries(KINDS).flatMap(([kind, mark]) =>
      Object.keys(packages[kind] ?? {}).map((name) => name + mark),
    );
    assert.deepEqual(listed.sort(), wanted.sort());
  });
});

/** The files that a file imports, and those that they import, and itself. */
function reachedFrom(path: string): readonly TreeFile[] {
  const reached = new Set([path]);
  for (const next of reached) {
    for (const { file } of FILES.find((each) => each.path === next)?.imports ?? []) if (file) reached.add(file);
  }
  return FILES.filter((file) => reached.has(file.path));
}
