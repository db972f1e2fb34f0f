/** mail_send of tasks/, with a window of four seconds: a mail to the server without mailboxes. */
import mailSend from "../../../tasks/mail_send.ts";
import { withWindow } from "../window.ts";

export default withWindow(mailSend, 4_000);
