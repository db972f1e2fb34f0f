/** The push: it arrives whole and git carries it out, but its answer is cut. Afterwards `ls-remote` tells. */
import { ending, reconciled } from "../effects.ts";
import { contains, type Match } from "../recipients/fault-rule.ts";
import type { Stage } from "../stage.ts";
import type { Story } from "../story.ts";
import gitPush from "../tasks/git_push.ts";
import { reached } from "../wait.ts";

/** Not the advertisement before it, which is a GET. */
export const THE_PUSH: Match = contains("POST /repository.git/git-receive-pack");

/** The end of git's report on a branch: by then the ref has moved. */
export const THE_REPORT: Match = contains("ok refs/heads/");

export const BRANCH = "refs/heads/main";

export async function cutTheAnswerOfAPush(stage: Stage, story: Story, task: string): Promise<void> {
  const { effects, git, ledger, signal } = stage;
  const commit = await git.commit({ content: "release 7\n", message: "Release 7" });
  const cut = effects.git.cutReply({ to: THE_PUSH, after: THE_REPORT });
  const effectId = await ledger.enqueue(
    gitPush,
    { remote: git.urlAt(effects.git.port), branch: "main", commit, repository: git.workFolder },
    { task, name: "release/7/push" },
  );
  await reached("the answer to the push", cut.reached, signal);
  const { state, unresolved, key } = await ending(stage, effectId);
  story.saw("push_unresolved", { state, unresolved, requests: git.pushesTo(BRANCH) });

  const after = await reconciled(stage, effectId);
  story.saw("push_accepted", {
    state: after.state,
    via: after.via,
    branch_moved: (await git.ref(BRANCH)) === commit,
    mark_stands: (await git.ref(`refs/effects/${key}`)) === commit,
    requests: git.pushesTo(BRANCH),
  });
}
