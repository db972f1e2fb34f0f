/** postgres_insert of tasks/, with a window of four seconds: a row in the second database. */
import postgresInsert from "../../../tasks/postgres_insert.ts";
import { withWindow } from "../window.ts";

export default withWindow(postgresInsert, 4_000);
