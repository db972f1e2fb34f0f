/** git_push of tasks/, with a window of four seconds: a branch of the bare repository moves. */
import gitPush from "../../../tasks/git_push.ts";
import { withWindow } from "../window.ts";

export default withWindow(gitPush, 4_000);
