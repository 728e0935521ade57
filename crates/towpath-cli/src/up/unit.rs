//! `unit`: a host as a service of the user's systemd.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use towpath::VmDir;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  towpath unit --listen 192.0.2.1:7077 > ~/.config/systemd/user/towpath.service
  systemctl --user daemon-reload && systemctl --user enable --now towpath
  loginctl enable-linger                 so that it starts without a login

The host of the unit founds the virtual machine; with --join it joins with the token in
$TOWPATH_HOME/VM/token (`towpath token --ttl 31536000 --uses 100` on the founder's machine).
Other hosts are added as to any virtual machine (`towpath host add`).")]
pub(crate) struct UnitArgs {
    /// Where the host receives; may be given up to eight times
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: Vec<SocketAddr>,
    /// Join with a token from a file, instead of founding
    #[arg(long)]
    join: bool,
}

pub(crate) fn unit(vm: &VmDir, args: &UnitArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("finding this program")?;
    let home = vm.path.parent().context("the directory of virtual machines")?;
    put!("{}", text(vm, args, &program.to_string_lossy(), &home.to_string_lossy()))?;
    Ok(ExitCode::SUCCESS)
}

/// A word of a unit file, whatever it holds (systemd.service(5), "Command lines").
fn quote(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", word.replace('$', "$$"))
}

fn text(vm: &VmDir, args: &UnitArgs, program: &str, home: &str) -> String {
    let (name, program) = (&vm.name, quote(program));
    let listen: Vec<_> = args.listen.iter().map(|addr| format!("--listen {addr}")).collect();
    let listen = listen.join(" ");
    let join = if args.join { " --join" } else { "" };
    let token = vm.path.join("token").to_string_lossy().replace('%', "%%");
    let input = if args.join { format!("StandardInput=file:{token}\n") } else { String::new() };
    format!(
        "[Unit]\n\
         Description=Towpath host of the virtual machine {name}\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=all\n\
         Environment={home}\n\
         ExecStart={program} --vm {name} daemon --number 1 {listen}{join}\n\
         {input}\
         # It ends its tasks itself, politely first; what is left is killed.\n\
         KillMode=mixed\n\
         TimeoutStopSec=10\n\
         # So that the daemon can have a control group of its own for its tasks.\n\
         Delegate=yes\n\
         Restart=on-failure\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        home = quote(&format!("TOWPATH_HOME={home}")).replace("$$", "$"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use towpath::Home;

    #[test]
    fn the_unit_starts_this_program_and_quotes_what_needs_it() {
        let vm = Home::at("/x y/50%".into()).vm("lab").unwrap();
        let args = UnitArgs { listen: vec![([192, 0, 2, 1], 7077).into()], join: true };
        let unit = text(&vm, &args, "/opt/a \"b\"/towpath", "/x y/50%");
        assert!(unit.contains(
            "ExecStart=\"/opt/a \\\"b\\\"/towpath\" --vm lab daemon --number 1 \
             --listen 192.0.2.1:7077 --join\n"
        ));
        assert!(unit.contains("Environment=\"TOWPATH_HOME=/x y/50%%\"\n"), "{unit}");
        assert!(unit.contains("StandardInput=file:/x y/50%%/lab/token\n"), "{unit}");
        assert!(unit.lines().all(|l| !l.starts_with(' ')), "{unit}");
    }
}
